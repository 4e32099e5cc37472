package timeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// follower keeps a client of a Redis Cluster with the nodes that serve its slots.
//
// go-redis would send a command again after a broken connection, without knowing
// whether it ran. So it follows nothing here by itself (MaxRedirects -1). It would
// also go to a dead master for up to a minute, since it asks who serves the slots
// only when a live node redirects it. The rule here:
//
//	MOVED, ASK                      the command did not run: it goes where they lead, at once
//	TRYAGAIN, LOADING, CLUSTERDOWN  the command did not run: the caller may come again
//	READONLY, MASTERDOWN            likewise
//	a dial that fails               likewise
//	silence, a broken connection    it may have run: the caller decides what may be repeated
//
// After each of these the slots are asked for, at most once a second.
type follower struct {
	client *redis.ClusterClient

	mu    sync.Mutex
	asked time.Time                // when the slots were asked for last
	nodes map[string]*redis.Client // by address
}

const (
	// followLimit is how often one command may be redirected: between nodes that
	// disagree it must not go round.
	followLimit = 3
	// slotsPause is between two questions for the slots.
	slotsPause = time.Second
)

// follow makes a client of a Redis Cluster.
func follow(options *redis.ClusterOptions) *redis.ClusterClient {
	options.MaxRedirects = -1
	options.DialerRetries = 1             // the caller repeats, and by then the slots may be elsewhere
	options.DisableRoutingPolicies = true // no command of ours concerns several nodes
	f := &follower{client: redis.NewClusterClient(options), nodes: map[string]*redis.Client{}}
	f.client.OnNewNode(func(node *redis.Client) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.nodes[node.Options().Addr] = node
	})
	f.client.AddHook(f)
	return f.client
}

// clusterOf is the client of a Redis Cluster that Dial made, nil where it is of one
// server.
func clusterOf(rdb redis.UniversalClient) *redis.ClusterClient {
	if r, is := rdb.(*renewing); is {
		rdb = r.UniversalClient
	}
	cluster, _ := rdb.(*redis.ClusterClient)
	return cluster
}

// DialHook changes nothing.
func (f *follower) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends a command where a node says that its slot is.
func (f *follower) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.led(ctx, cmd, next(ctx, cmd))
	}
}

// ProcessPipelineHook does so with each command of a pipeline.
func (f *follower) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil {
			return nil
		}
		err = nil
		for _, cmd := range cmds {
			if failed := f.led(ctx, cmd, cmd.Err()); err == nil {
				err = failed
			}
		}
		return err
	}
}

// led sends a command on for as long as its answer says where to, and returns its
// error.
func (f *follower) led(ctx context.Context, cmd redis.Cmder, err error) error {
	for range followLimit {
		node, asking := f.leads(err)
		if node == nil {
			break
		}
		cmd.SetErr(nil)
		if asking {
			pipe := node.Pipeline()
			pipe.Do(ctx, "asking")
			_ = pipe.Process(ctx, cmd) // queued
			_, err = pipe.Exec(ctx)
		} else {
			err = node.Process(ctx, cmd)
		}
	}
	f.heed(err)
	return err
}

// leads returns the node that an answer redirects a command to, nil if it redirects it
// nowhere. go-redis made a client of that node when it read the answer.
func (f *follower) leads(answer error) (node *redis.Client, asking bool) {
	addr, moved := redis.IsMovedError(answer)
	if !moved {
		if addr, asking = redis.IsAskError(answer); !asking {
			return nil, false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[addr], asking
}

// heed asks for the slots, without waiting for the answer, where an error may mean
// that another node serves them now.
func (f *follower) heed(err error) {
	if err == nil || !elsewhere(err) {
		return
	}
	f.mu.Lock()
	due := time.Since(f.asked) >= slotsPause
	if due {
		f.asked = time.Now()
	}
	f.mu.Unlock()
	if due {
		f.client.ReloadState(context.Background())
	}
}

// elsewhere reports whether an error may mean that another node serves the slots.
func elsewhere(err error) bool {
	if answer := redis.Error(nil); !errors.As(err, &answer) {
		return !errors.Is(err, redis.ErrClosed) && !errors.Is(err, context.Canceled)
	}
	return redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) ||
		redis.IsTryAgainError(err) || redis.IsLoadingError(err)
}
