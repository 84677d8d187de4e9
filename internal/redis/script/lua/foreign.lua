-- What is laid out otherwise belongs to somebody else: it is left as it is.
if value and not known and value ~= '' then
  return FOREIGN
end
