-- Save `new` for `keep` more microseconds and a second. A server without memory
-- refuses the first write of a script that may take some. A counter that exists
-- has to go on counting all the same: behind a write that takes none it may.
if new ~= value then
  keep = (keep - keep % 1000) / 1000 + 1001
  local done = redis.pcall('SET', KEYS[1], new, 'PX', keep)
  if done.err and value and done.err:find('OOM', 1, true) then
    redis.call('PEXPIRE', KEYS[1], keep)
    done = redis.pcall('SET', KEYS[1], new, 'PX', keep)
  end
  if done.err then
    return done.err:find('OOM', 1, true) and FULL or done
  end
end
