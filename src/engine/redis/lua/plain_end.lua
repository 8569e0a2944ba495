for key, value in pairs(pending or {}) do
  if value and store_now(key, value, true, idle[key]) then return redis.error_reply('ERR a write failed after others') end
end
return table.concat(out)
