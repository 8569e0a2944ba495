return redis.error_reply('ERR later')
