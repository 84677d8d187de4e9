-- A debt that has a name is charged once: its key is there since. See lease.Want.
local owing = KEYS[ARGV[2] and 3 or 2]
if owing and redis.call('GET', owing) then
  debt = debt - owed
end
