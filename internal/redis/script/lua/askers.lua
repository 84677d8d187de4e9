-- Who asks: the holders that asked for the first time in lease interval `last`, and
-- the faded ones of those before. See lease.Askers.
if fresh == 1 or asking > 0 or older > 0 then
  local span = (now - now % interval) / interval
  local passed = span - last
  if passed ~= 0 then
    local earlier = math.min(math.max(passed, 0), 31)
    local lately = math.min(math.max(passed - 1, 0), 31)
    older = math.max(math.floor(asking / 2 ^ lately), math.floor(older / 2 ^ earlier))
    last, asking = span, 0
  end
  asking = asking + fresh
end
