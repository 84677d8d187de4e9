-- Save `new` for `keep` more microseconds and a second; with `lasts` the key has
-- that much time already, and is only written into. A server without memory rejects
-- the first write of a script that may take some. A counter that exists has to go
-- on counting all the same: behind a write that takes none it may.
if new ~= value then
  keep = (keep - keep % 1000) / 1000 + 1001
  local done = lasts and #new >= #value and redis.pcall('SETRANGE', KEYS[1], 0, new)
    or redis.pcall('SET', KEYS[1], new, 'PX', keep)
  if done ~= #new and done.err then
    if value and done.err:find('OOM', 1, true) then
      redis.call('PEXPIRE', KEYS[1], keep)
      done = redis.pcall('SET', KEYS[1], new, 'PX', keep)
    end
    if done.err then
      return done.err:find('OOM', 1, true) and FULL or done
    end
  end
end
