--@ blocked
-- Decide whether the need fits into `rest`. What is withheld is not there.
rest = rest > withheld and rest - withheld or 0
local fits = need <= rest
if fit == 1 and fits then
  need, waiting, want = 0, 0, 0
end
local granted, lot, starts, ttl, short = 0, 0, 0, 0, fits and 0 or need
if fit > 1 and rest == 0 then -- who looks learns when there is a unit
  short = 1
end
