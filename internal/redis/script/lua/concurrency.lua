-- Concurrency: internal/limit/concurrency.go, and granter.Slots.
--
-- Value: version, base, time, units held, number of holdings; then the holdings,
-- 16 bytes each: id, when it runs out (after base), units; then the statements of
-- holders, 20 bytes each: id, when it is forgotten (after base), number of the
-- call. Both are in the order in which they run out, so that what has run out is
-- at the front.

local HEAD, HELD, STATED = 23, 16, 20
local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
--@ foreign
local base, at, used, held, stated = now, 0, 0, '', ''
if known then
  local _, n
  _, base, at, used, n = struct.unpack('<BI7I7I5I3', value)
  held = value:sub(HEAD + 1, HEAD + n * HELD)
  stated = value:sub(HEAD + n * HELD + 1)
end

local function ends(list, i) -- of the entry behind byte i
  return (struct.unpack('<I5', list, i + 9))
end
local function units(i)
  return (struct.unpack('<I3', held, i + 14))
end

-- shifted counts the times of a list from another base. Nothing lasts for longer
-- than most after it.
local function shifted(list, size, by, most)
  local to = {}
  for i = 0, #list - size, size do
    to[#to + 1] = list:sub(i + 1, i + 8)
      .. struct.pack('<I5', math.min(ends(list, i) - by, most)) .. list:sub(i + 14, i + size)
  end
  return table.concat(to)
end

-- Move to now and drop what ran out.
if at - now > ttl then -- a clock was wrong
  held = shifted(held, HELD, now - base, ttl)
  stated = shifted(stated, STATED, now - base, ttl)
  at, base = now, now
end
at = math.max(at, now)
local i = 0
while i < #held and ends(held, i) <= at - base do
  used = used - units(i)
  i = i + HELD
end
held = held:sub(i + 1)
i = 0
while i < #stated and ends(stated, i) <= at - base do
  i = i + STATED
end
stated = stated:sub(i + 1)
if at + DAY - base >= 1099511627776 then
  held = shifted(held, HELD, at - base, DAY)
  stated = shifted(stated, STATED, at - base, DAY)
  base = at
end

local function find(list, size)
  local i = list:find(id, 1, true)
  while i and (i - 1) % size ~= 0 do
    i = list:find(id, i + 1, true)
  end
  return i
end

-- placed puts the entry of the id into a list, in place of the one at byte i.
local function placed(list, size, i, rest)
  if i then
    list = list:sub(1, i - 1) .. list:sub(i + size)
  end
  if not rest then
    return list
  end
  local till = at + ttl - base
  local k = #list
  while k > 0 and ends(list, k - size) > till do
    k = k - size
  end
  return list:sub(1, k) .. id .. struct.pack('<I5', till) .. rest .. list:sub(k + 1)
end

-- hold makes the id hold so many units until the ttl is over.
local place = find(held, HELD)
local had = place and units(place - 1) or 0
local function hold(n)
  held = placed(held, HELD, place, n > 0 and struct.pack('<I3', n))
  used = used - had + n
  place, had = n > 0 and find(held, HELD), n
end

-- retry is until the others hold so little that need fits.
local function retry(need)
  if need > count then
    return NEVER
  end
  local others = used - had
  for i = 0, #held - HELD, HELD do
    if i + 1 ~= place then
      others = others - units(i)
      if others <= count - need then
        return ends(held, i) + base - now
      end
    end
  end
  return 0
end

-- accept reports whether this is the holder's latest statement, and remembers it.
local function accept()
  local i = find(stated, STATED)
  if i and seq < struct.unpack('<I7', stated, i + 13) then
    return false
  end
  stated = placed(stated, STATED, i, struct.pack('<I7', seq))
  return true
end

-- grant is how many slots a holder may hold. See limit.Hold.
local function grant(using, wanted)
  local kept = math.min(using, had)
  local free = math.max(0, count - (used - had) - kept)
  local granted = kept + math.min(free, using - kept)
  free = free - granted + kept
  local ahead = math.min(wanted - granted, free)
  if ahead > 0 then
    local holders = 2 * (#held / HELD + (had == 0 and 1 or 0))
    granted = granted + math.min(ahead, math.max(1, (free - free % holders) / holders))
  end
  hold(granted)
  return granted, math.max(using, math.min(wanted, 1))
end

local fits, latest, granted, needed = true, true, 0, 0
if op == 0 then
  latest = accept()
  if latest and fit == 1 then
    granted, needed = grant(holding, holding)
    fits = granted - holding + math.max(0, count - used) >= need
  end
  if latest and not (fit == 1 and fits) then
    local using = holding + waiting
    granted, needed = grant(using, math.max(using, want))
  end
elseif op == 1 then
  granted, needed = need, need
  if need > had and (used - had + need > count or had == 0 and #held >= HOLDINGS * HELD) then
    granted = 0
  end
  if granted > 0 then
    hold(granted)
  end
elseif op == 2 then
  granted, needed = had, had
  if had > 0 then
    hold(had)
  end
else
  hold(0)
end
local wait = granted < needed and retry(needed) or 0

if known or #held > 0 or #stated > 0 then
  local keep = at - now -- at least until the clock is where it was
  if #held > 0 then
    keep = math.max(keep, ends(held, #held - HELD) + base - now)
  end
  if #stated > 0 then
    keep = math.max(keep, ends(stated, #stated - STATED) + base - now)
  end
  local new = struct.pack('<BI7I7I5I3', VERSION, base, at, used, #held / HELD) .. held .. stated
  local lasts = false
  --@ save
end
return struct.pack(REPLY, fits and 1 or 0, #held > 0 and 1 or 0,
  granted, math.max(0, count - used), latest and 1 or 0, 0, granted > 0 and ttl or 0, wait, 0, 0)
