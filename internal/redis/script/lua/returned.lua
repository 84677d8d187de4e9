-- How much of what comes back may have been on lease.
if now >= out + MEMORY then
  leased = 0
end
local back = 0
if unused <= 2 * count and unused > 0 then
  back = unused < leased and unused or leased
end
