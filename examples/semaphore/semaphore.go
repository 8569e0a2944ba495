package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Semaphore lets at most Permits calls go at once, in all processes that name the same Key. Go's standard library alone:
// copy this file into your own service. It is three POSTs.
type Semaphore struct {
	Server  string // of any node: http://127.0.0.1:8080
	Token   string // that Penstock asks for, if it does
	Key     string
	Permits int
	Lease   time.Duration // for how long a crashed holder blocks its permit
	Holder  string        // a name for people who look who holds
}

// ErrFull: nobody gave back in time. ErrUnasked: Penstock, or its engine, could not be asked; this is neither yes nor no.
var (
	ErrFull    = errors.New("all permits are held")
	ErrUnasked = errors.New("the semaphore cannot be asked")
)

// Permit is held until Release, or until it is lost.
type Permit struct {
	Fence  int64         // grows with every grant: a resource that remembers the largest can refuse those before it
	Waited time.Duration // in the queue
	// Context ends when the permit is lost: what is done under it must end too, for somebody else may hold it now.
	Context context.Context

	semaphore *Semaphore
	id        string
	lose      context.CancelFunc
	kept      chan struct{} // closed once nobody renews any more
}

type answer struct {
	Allowed bool
	Outcome string
	Detail  string // of a problem
	Result  string // of a renewal or a release
	Permit  *struct {
		ID        string
		Fence     int64
		ExpiresIn int64 `json:"expires_in_ms"`
		Waited    int64 `json:"waited_ms"`
	}
	ExpiresIn int64 `json:"expires_in_ms"`
}

// Acquire waits in the queue for at most `wait`. If ctx ends, so does the waiting: Penstock sees that the connection is
// closed, and hands on what it may have granted.
func (s *Semaphore) Acquire(ctx context.Context, wait time.Duration) (*Permit, error) {
	asked := time.Now() // monotonic, too
	var got answer
	err := s.post(ctx, wait+2*time.Second, "/v1/check", map[string]any{
		"key": s.Key, "limit": map[string]any{"permits": s.Permits, "lease": fmt.Sprintf("%dms", s.Lease.Milliseconds())},
		"max_wait_ms": wait.Milliseconds(), "holder": s.Holder,
	}, &got)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %v", ErrUnasked, err)
	case got.Outcome == "denied" || got.Outcome == "never":
		return nil, ErrFull
	case !got.Allowed || got.Permit == nil: // unavailable, or a mistake in the question
		return nil, fmt.Errorf("%w: %s%s", ErrUnasked, got.Outcome, got.Detail)
	}
	waited := time.Duration(got.Permit.Waited) * time.Millisecond
	p := &Permit{Fence: got.Permit.Fence, Waited: waited, semaphore: s, id: got.Permit.ID, kept: make(chan struct{})}
	p.Context, p.lose = context.WithCancel(ctx)
	go p.keep(deadline(asked.Add(waited), time.Duration(got.Permit.ExpiresIn)*time.Millisecond))
	return p, nil
}

// Up to when a permit is surely ours: counted from before the question, and a little less than the lease.
func deadline(from time.Time, lease time.Duration) time.Time {
	margin := lease / 20
	if margin < 50*time.Millisecond {
		margin = 50 * time.Millisecond
	}
	return from.Add(lease - margin)
}

// Renews at a third of the lease, and again while nobody answers, until the deadline.
func (p *Permit) keep(until time.Time) {
	defer close(p.kept)
	defer p.lose()
	pause := p.semaphore.Lease / 3
	for {
		if left := time.Until(until); pause > left {
			pause = left
		}
		select {
		case <-p.Context.Done():
			return
		case <-time.After(pause):
		}
		asked := time.Now()
		if !asked.Before(until) {
			return
		}
		var got answer
		err := p.semaphore.post(p.Context, time.Until(until), "/v1/renew", map[string]any{"id": p.id}, &got)
		switch {
		case err == nil && got.Result == "renewed":
			until, pause = deadline(asked, time.Duration(got.ExpiresIn)*time.Millisecond), p.semaphore.Lease/3
		case err == nil && (got.Result == "expired" || got.Result == "unknown"):
			return // lost: it never comes back
		default: // nobody could be asked
			pause = p.semaphore.Lease / 20
		}
	}
}

// Release gives it back. If that fails the lease runs out by itself.
func (p *Permit) Release() error {
	p.lose()
	<-p.kept
	var got answer
	return p.semaphore.post(context.Background(), 2*time.Second, "/v1/release", map[string]any{"id": p.id}, &got)
}

func (s *Semaphore) post(ctx context.Context, patience time.Duration, path string, question any, got *answer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.Token != "" {
		request.Header.Set("Authorization", "Bearer "+s.Token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body) // to its end, so that the connection can be used again
	if err != nil {
		return err
	}
	return json.Unmarshal(text, got)
}
