-- The clock of the region is that of the server; a test brings its own.
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
