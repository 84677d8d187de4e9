-- A debt that has a name is charged once: its key is there since. See limiter.Ask.
local owing = KEYS[2]
if owing and redis.call('GET', owing) then
  debt = debt - owed
end
