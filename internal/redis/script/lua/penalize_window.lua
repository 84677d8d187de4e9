if penal == 1 then
  at, level, rest = begins, math.max(level, math.min(level + need, 2 * count)), 0
end
