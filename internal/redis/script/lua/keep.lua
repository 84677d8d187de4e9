
-- Save `new` and the askers, if there are any.
if known or asked == 1 then
  if asking > 0 or older > 0 then
    new = new .. struct.pack('<I6I4I4', last, asking, older)
  end
  local keep = out - now > reset and out - now or reset
  --@ save
end
