// What resp_server.py asks of a client, by go-redis: HOST PORT TOKEN.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// render writes a reply as text: values apart by spaces, nil as "nil".
func render(value any) string {
	switch v := value.(type) {
	case nil:
		return "nil"
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = render(part)
		}
		return strings.Join(parts, " ")
	default:
		return fmt.Sprint(v)
	}
}

// expect ends the program unless the command was answered with these words (or, for an error, with words that begin so).
func expect(command *redis.Cmd, wanted string) {
	value, err := command.Result()
	got := render(value)
	if err != nil && !errors.Is(err, redis.Nil) {
		got = err.Error()
		if strings.HasPrefix(got, wanted) {
			return
		}
	}
	if got != wanted {
		fmt.Printf("%v\nanswered: %s\nwanted:   %s\n", command.Args(), got, wanted)
		os.Exit(1)
	}
}

func client(options redis.Options) *redis.Client {
	options.Addr = os.Args[1] + ":" + os.Args[2]
	options.MaxRetries = -1
	return redis.NewClient(&options)
}

func askEverything(protocol int) {
	rdb := client(redis.Options{Password: os.Args[3], Protocol: protocol, ClientName: "a-client"})
	defer rdb.Close()
	key := fmt.Sprintf("go-redis:%d", protocol)
	expect(rdb.Do(ctx, "PING"), "PONG")
	expect(rdb.Do(ctx, "ECHO", "hear me"), "hear me")
	expect(rdb.Do(ctx, "CL.THROTTLE", key, 15, 30, 60), "0 16 15 -1 2")
	replies := make([]*redis.Cmd, 0, 20)
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := 0; i < 20; i++ {
			replies = append(replies, pipe.Do(ctx, "CL.THROTTLE", key, 15, 30, 60))
		}
		return nil
	})
	if err != nil {
		fmt.Println("pipeline:", err)
		os.Exit(1)
	}
	for i, reply := range replies {
		wanted := "1 16 0 2 32"
		if i < 15 {
			wanted = fmt.Sprintf("0 16 %d -1 %d", 14-i, 4+2*i)
		}
		expect(reply, wanted)
	}
	expect(rdb.Do(ctx, "PEN.CHECK", "api", 1, "user", key), "1 allowed 20 19 0 600 0 0 nil nil nil nil 0 1")
	expect(rdb.Do(ctx, "PEN.CHECK", "api", 1, "user", key, "COST", 21),
		"0 never 20 19 nil 600 0 0 nil nil nil nil 0 1")
	expect(rdb.Do(ctx, "PEN.CHECK", "nowhere", 0), "NOTFOUND ")
	expect(rdb.Do(ctx, "CL.THROTTLE", key, 1, 0, 60), "ERR ")
	expect(rdb.Do(ctx, "GET", "x"), "ERR unknown command ")
	expect(rdb.Do(ctx, "PING"), "PONG")
}

// askAtOnce: 64 goroutines over the client's pool; a bucket of 16 admits 16.
func askAtOnce() {
	rdb := client(redis.Options{Password: os.Args[3]})
	defer rdb.Close()
	var group sync.WaitGroup
	replies := make([]*redis.Cmd, 64)
	for i := range replies {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			replies[i] = rdb.Do(ctx, "CL.THROTTLE", "go-redis:pool", 15, 30, 60)
		}(i)
	}
	group.Wait()
	admitted := 0
	for _, reply := range replies {
		if strings.HasPrefix(render(reply.Val()), "0 16 ") {
			admitted++
		}
	}
	if admitted != 16 {
		fmt.Printf("%d of 16 admitted by 64 goroutines\n", admitted)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) != 4 {
		os.Exit(2)
	}
	for _, protocol := range []int{2, 3} {
		askEverything(protocol)
	}
	expect(client(redis.Options{}).Do(ctx, "PING"), "NOAUTH ")
	expect(client(redis.Options{Password: "wrong"}).Do(ctx, "PING"), "WRONGPASS ")
	askAtOnce()
	fmt.Printf("go-redis %s on %s: RESP2, RESP3, 64 goroutines\n", redis.Version(), runtime.Version())
}
