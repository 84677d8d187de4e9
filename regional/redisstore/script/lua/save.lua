-- save replaces the value of a key, unless it is the same; keep is for how many
-- milliseconds. A server without memory refuses the first write of a script that
-- may take some. A counter that exists has to go on counting all the same: after
-- a write that takes none the next is not refused. Returns what to answer if it
-- is not saved.
local function save(key, old, new, keep)
  if new == old then
    return
  end
  local done = redis.pcall('SET', key, new, 'PX', keep)
  if done.err and old and done.err:find('OOM', 1, true) then
    redis.call('PEXPIRE', key, keep)
    done = redis.pcall('SET', key, new, 'PX', keep)
  end
  if done.err then
    return done.err:find('OOM', 1, true) and FULL or done
  end
end
