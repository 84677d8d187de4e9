--@ returned
-- Settle what comes back, to the window of its lease, and what was admitted without asking.
-- `side` is charged in the window that begins at `other`.
if back > 0 then
  if (at - at % 1000) / 1000 % 4294967296 == lease then
    back = back < level and back or level
    level = level - back
  elseif other / 1000 % 4294967296 == lease then
    back = back < side and back or side
    side = side - back
  else
    back = 0
  end
  leased = leased - back
end
if debt > 0 then
  at, level = begins, math.max(level, math.min(level + debt, 2 * count))
end
