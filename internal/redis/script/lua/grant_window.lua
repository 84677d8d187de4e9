-- Grant units of the running window.
granted = size(waiting, want, rest, asking + older)
if granted > 0 then
  at, lot, ttl = begins, begins, 2 * rest >= count and long or brief
  if ttl > at + period - now then
    ttl = at + period - now
  end
  rest, level = rest - granted, level + granted
end
short = rest == 0 and 1 or 0
