-- noted counts an ask in lease interval `span` among the askers of the counter:
-- those of the interval `last`, and the faded ones before. See lease.Askers.
local function noted(span, fresh, last, asking, before)
  local passed = span - last
  if passed ~= 0 then
    local earlier = math.min(math.max(passed, 0), 31)
    local lately = math.min(math.max(passed - 1, 0), 31)
    before = math.max(math.floor(asking / 2 ^ lately), math.floor(before / 2 ^ earlier))
    asking = 0
  end
  return span, asking + fresh, before
end
