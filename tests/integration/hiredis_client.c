/* What resp_server.py asks of a client, by hiredis: HOST PORT TOKEN. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisContext *connection;

static void Fail(const char *what) {
  printf("%s (%s)\n", what, connection != NULL && connection->err != 0 ? connection->errstr : "no socket error");
  exit(1);
}

/* A reply as text: integers and strings apart by spaces, nil as "nil", errors as they are. */
static void Render(const redisReply *reply, char *text, size_t room) {
  const size_t used = strlen(text);
  char *const end = text + used;
  const size_t left = room - used;
  const char *const space = used > 0 ? " " : "";
  switch (reply->type) {
    case REDIS_REPLY_INTEGER:
      snprintf(end, left, "%s%lld", space, reply->integer);
      break;
    case REDIS_REPLY_NIL:
      snprintf(end, left, "%snil", space);
      break;
    case REDIS_REPLY_ARRAY:
      for (size_t i = 0; i < reply->elements; ++i) Render(reply->element[i], text, room);
      break;
    default:
      snprintf(end, left, "%s%s", space, reply->str != NULL ? reply->str : "?");
  }
}

/* Takes the reply; it must be, or for a prefix begin with, what is wanted. */
static void Expect(redisReply *reply, const char *wanted, int prefix) {
  char text[512] = "";
  if (reply == NULL) Fail(wanted);
  Render(reply, text, sizeof text);
  freeReplyObject(reply);
  if (prefix ? strncmp(text, wanted, strlen(wanted)) == 0 : strcmp(text, wanted) == 0) return;
  printf("answered: %s\nwanted:   %s\n", text, wanted);
  exit(1);
}

static void AskEverything(const char *key, const char *token) {
  Expect(redisCommand(connection, "PING"), "NOAUTH ", 1);
  Expect(redisCommand(connection, "AUTH wrong"), "WRONGPASS ", 1);
  Expect(redisCommand(connection, "AUTH %s", token), "OK", 0);
  Expect(redisCommand(connection, "PING"), "PONG", 0);
  Expect(redisCommand(connection, "ECHO %b", "a\0b", (size_t)3), "a", 0);
  Expect(redisCommand(connection, "CL.THROTTLE %s 15 30 60", key), "0 16 15 -1 2", 0);
  for (int i = 0; i < 20; ++i) {
    if (redisAppendCommand(connection, "CL.THROTTLE %s 15 30 60", key) != REDIS_OK) Fail("append");
  }
  for (int i = 0; i < 20; ++i) {
    char wanted[64] = "1 16 0 2 32";
    void *reply = NULL;
    if (i < 15) snprintf(wanted, sizeof wanted, "0 16 %d -1 %d", 14 - i, 4 + 2 * i);
    if (redisGetReply(connection, &reply) != REDIS_OK) Fail("pipeline");
    Expect(reply, wanted, 0);
  }
  Expect(redisCommand(connection, "PEN.CHECK api 1 user %s", key),
         "1 allowed 20 19 0 600 0 0 nil nil nil nil 0 1", 0);
  Expect(redisCommand(connection, "PEN.CHECK api 1 user %s COST 21", key),
         "0 never 20 19 nil 600 0 0 nil nil nil nil 0 1", 0);
  Expect(redisCommand(connection, "PEN.CHECK nowhere 0"), "NOTFOUND ", 1);
  Expect(redisCommand(connection, "CL.THROTTLE %s 1 0 60", key), "ERR ", 1);
  Expect(redisCommand(connection, "GET x"), "ERR unknown command ", 1);
  Expect(redisCommand(connection, "PING"), "PONG", 0);
}

static void Connect(const char *host, int port) {
  const struct timeval patience = {60, 0};
  connection = redisConnectWithTimeout(host, port, patience);
  if (connection == NULL || connection->err != 0) Fail("connect");
  if (redisSetTimeout(connection, patience) != REDIS_OK) Fail("time-out");
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  Connect(argv[1], atoi(argv[2]));
  AskEverything("hiredis:2", argv[3]);
  redisFree(connection);
  const char *spoken = "RESP2";
#ifdef REDIS_REPLY_MAP /* since 1.0; Debian 12 has an older one */
  Connect(argv[1], atoi(argv[2]));
  redisReply *hello = redisCommand(connection, "HELLO 3 AUTH default %s", argv[3]);
  if (hello == NULL || hello->type != REDIS_REPLY_MAP) Fail("HELLO 3 answers no map");
  freeReplyObject(hello);
  Expect(redisCommand(connection, "PEN.CHECK api 1 user hiredis:3"),
         "1 allowed 20 19 0 600 0 0 nil nil nil nil 0 1", 0);
  redisFree(connection);
  spoken = "RESP2, RESP3";
#endif
  printf("hiredis %d.%d.%d: %s\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH, spoken);
  return 0;
}
