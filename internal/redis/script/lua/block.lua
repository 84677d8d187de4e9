-- Reserve what was granted, and block the key if the need would not fit even if all reservations, and all that is kept
-- for others, came back. See limit.DecideBlocking.
if blocked == 1 then
  fits, rest, retry = lock.fits, 0, lock.ends - now
elseif lock then
  if lock.reserves > 0 then
    local period = at
    if lock.reserves == 2 then
      period = now - now % lock.lookback
      lot = period
    end
    if period ~= lock.period then
      lock.before, lock.earlier = period - lock.period > lock.lookback and 0 or lock.open, lock.period
      lock.open, lock.period = 0, period
    end
    lock.open = math.min(lock.open + granted, 4294967295)
  end
  local open, lacks = lock.open + lock.before, need
  if granted > 0 then
    lacks = math.min(waiting - granted, 1)
  end
  if lacks > 0 and lacks <= count then
    if lacks > rest + withheld + lock.kept + open then
      lock.ends, rest, retry, blocked = now + lock.lasts, 0, lock.lasts, 2
    elseif open > 0 and granted == 0 and retry > 1000000 then
      retry = 1000000
    end
  end
end
if lock and (lock.value or lock.ends > now or lock.open > 0) then
  local new = struct.pack('<BI7I4I7I4I7', VERSION, lock.ends, lock.open, lock.period, lock.before, lock.earlier)
  if new ~= lock.value then
    local keep = math.max(lock.ends - now, lock.reserves > 0 and math.max(math.min(reset, 400 * DAY), 2 * lock.lookback) or 0)
    redis.pcall('SET', KEYS[2], new, 'PX', (keep - keep % 1000) / 1000 + 1001)
  end
end
