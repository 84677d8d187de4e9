-- Of a limit that blocks the second key has the lockout, see limit.Lockout: version, when the block ends, units reserved
-- in this period, the period, and both of the period before. What comes back or counts is reserved no longer. A key with
-- a block gets nothing.
local lock, blocked = nil, 0
if ARGV[2] then
  lock = { value = redis.call('GET', KEYS[2]), ends = 0, open = 0, period = 0, before = 0, earlier = 0, fits = need == 0 }
  local settled
  lock.lasts, lock.kept, settled, lock.lookback, lock.reserves = struct.unpack(BLOCK, ARGV[2])
  if fit < 3 and lock.value and lock.value:byte() == VERSION then
    local _
    _, lock.ends, lock.open, lock.period, lock.before, lock.earlier = struct.unpack('<BI7I4I7I4I7', lock.value)
  end
  if unused <= 2 * count then
    if (lock.period - lock.period % 1000) / 1000 % 4294967296 == lease then
      lock.open = math.max(0, lock.open - unused - settled)
    elseif (lock.earlier - lock.earlier % 1000) / 1000 % 4294967296 == lease then
      lock.before = math.max(0, lock.before - unused - settled)
    end
  end
  if lock.ends > now then
    lock.ends, blocked = math.min(lock.ends, now + lock.lasts), 1
    need, waiting, want, penal = 0, 0, 0, 0
  end
end
