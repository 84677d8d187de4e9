-- A debt that has a name is charged once: KEYS[2] is there since. See limiter.Ask.
if KEYS[2] and redis.call('GET', KEYS[2]) then
  debt = debt - owed
end
