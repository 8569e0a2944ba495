if pending then
  for key, value in pairs(pending) do
    if value and store_now(key, value, true, idle[key]) then
      return redis.error_reply('ERR a write failed after others')
    end
  end
end
return table.concat(out, '', 1, n)
