
-- Save `new` and the askers, if there are any.
if known or asked == 1 then
  if asking > 0 or before > 0 then
    new = new .. struct.pack('<I6I4I4', last, asking, before)
  end
  local keep = out - now > reset and out - now or reset
  --@ save
end
