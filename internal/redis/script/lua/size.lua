-- size is how much an ask gets whose need fits into what is left.
local function size(waiting, want, left, askers)
  local units = waiting
  if want > waiting then
    local share = askers > 1 and 2 * askers or 2
    share = (left - left % share) / share
    if share > units then
      units = share
    end
    if want < units then
      units = want
    end
  end
  return units < left and units or left
end
