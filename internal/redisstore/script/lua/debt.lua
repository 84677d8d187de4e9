-- A debt that has a name is charged once: its key is there since. See limiter.Ask.
if owing and redis.call('GET', owing) then
  debt = debt - owed
end
