-- What is given back under names is taken back once: the last of KEYS holds those of the
-- last minute, by when they came. What cannot be remembered is lost. See limiter.Ask.
local owing = KEYS[2]
if ARGV[2] then
  local names, ms, noted = KEYS[#KEYS], (now - now % 1000) / 1000, false
  owing = KEYS[3] and owing
  local room = redis.call('ZCARD', names) < MOST
  for i = 1, #ARGV[2], 12 do
    local name, n = struct.unpack('<c8I4', ARGV[2], i)
    if room and redis.pcall('ZADD', names, 'NX', ms, name) == 1 then
      noted = true
    else
      unused = unused - n
    end
  end
  if noted then -- a server without memory has refused, see save
    redis.call('ZREMRANGEBYSCORE', names, 0, ms - MINUTE / 1000)
    redis.call('PEXPIRE', names, 2 * MINUTE / 1000)
  end
end
