--@ returned
-- Settle what comes back, to the window of its lease, and what was admitted without asking.
-- `side` is charged in the window that begins at `other`. `lent` is the window of which units are `leased`.
if back > 0 then
  local newest = not lent or (lent - lent % 1000) / 1000 % 4294967296 == lease
  if not newest then
    back = unused
  end
  if (at - at % 1000) / 1000 % 4294967296 == lease then
    back = back < level and back or level
    level = level - back
  elseif other / 1000 % 4294967296 == lease then
    back = back < side and back or side
    side = side - back
  else
    back = 0
  end
  if newest then
    leased = leased - back
  end
end
if debt > 0 then
  at, level = begins, math.max(level, math.min(level + debt, 2 * count))
end
