-- Windows of a calendar are not all of one length. At the end of the argument is when six of them begin, in order;
-- the caller's clock shows the second, and this one one of the first three. Otherwise one of the two clocks is wrong.
local begins = { struct.unpack('<I7I7I7I7I7I7', ARGV[1], #ARGV[1] - 41) }
if now < begins[1] or now >= begins[4] then
  return STALE
end
local i = now < begins[2] and 1 or now < begins[3] and 2 or 3
if at ~= begins[i] and at ~= begins[i + 1] then
  lasts = false
  if at < begins[i] then
    level, side = begins[i] - at > 1.5 * period and 0 or side, 0
  end
  at = begins[i]
elseif at ~= begins[i] then
  i = i + 1
end
period, following = begins[i + 1] - begins[i], begins[i + 2] - begins[i + 1]
