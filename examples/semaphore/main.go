// A service that calls a third party which bears only so many calls at once, from the whole fleet:
//
//	(cd examples/semaphore && go run .)
//	curl -i 'http://127.0.0.1:9001/picture?of=42'
//
// What it may be told by the environment:
//
//	LISTEN          where it serves; port 0 takes a free one    [127.0.0.1:9001]
//	PENSTOCK_URL    a node of the fleet                         [http://127.0.0.1:8080]
//	PENSTOCK_TOKEN  the token that Penstock asks for, if it does
//	CALL_MS         how long the third party takes              [200]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	permits = 2
	lease   = 10 * time.Second
	wait    = 2 * time.Second // how long a caller of ours waits for its turn
)

type service struct {
	semaphore Semaphore
	callTakes time.Duration
	inFlight  int32
}

// The third party. It must end with its context: when the permit is lost somebody else may call.
func (s *service) callThirdParty(ctx context.Context, of string) (string, error) {
	now := atomic.AddInt32(&s.inFlight, 1)
	defer atomic.AddInt32(&s.inFlight, -1)
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(s.callTakes):
		return fmt.Sprintf("a picture of %s, with %d of at most %d in flight here", of, now, permits), nil
	}
}

func (s *service) picture(w http.ResponseWriter, r *http.Request) {
	permit, err := s.semaphore.Acquire(r.Context(), wait)
	if err != nil {
		// Neither is the client's fault. Where the third party can be hurt, "could not ask" must not mean yes.
		log.Printf("no permit: %v", err)
		w.Header().Set("Retry-After", "1")
		words := "busy"
		if errors.Is(err, ErrUnasked) {
			words = "the semaphore cannot be asked"
		}
		reply(w, http.StatusServiceUnavailable, map[string]any{"error": words})
		return
	}
	defer func() {
		if err := permit.Release(); err != nil {
			log.Printf("not given back, its lease ends it: %v", err)
		}
	}()
	picture, err := s.callThirdParty(permit.Context, r.URL.Query().Get("of"))
	if err != nil {
		reply(w, http.StatusServiceUnavailable, map[string]any{"error": "the permit was lost, or you have gone"})
		return
	}
	reply(w, http.StatusOK, map[string]any{"picture": picture, "waited_ms": permit.Waited.Milliseconds()})
}

func reply(w http.ResponseWriter, status int, fields map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(fields)
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	takes, err := strconv.Atoi(environment("CALL_MS", "200"))
	if err != nil {
		log.Fatalf("CALL_MS: %v", err)
	}
	host, _ := os.Hostname()
	s := &service{callTakes: time.Duration(takes) * time.Millisecond, semaphore: Semaphore{
		Server: environment("PENSTOCK_URL", "http://127.0.0.1:8080"), Token: os.Getenv("PENSTOCK_TOKEN"),
		Key: "third-party:pictures", Permits: permits, Lease: lease, Holder: fmt.Sprintf("%s/%d", host, os.Getpid()),
	}}
	listener, err := net.Listen("tcp", environment("LISTEN", "127.0.0.1:9001"))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/picture", s.picture)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	ended, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	drained := make(chan struct{})
	go func() {
		<-ended.Done()
		_ = server.Shutdown(context.Background()) // what is under way ends, and gives its permit back
		close(drained)
	}()
	fmt.Printf("ready http=%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-drained
}
