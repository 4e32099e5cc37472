package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// node is a znode that exists.
type node struct {
	data []byte
	stat zk.Stat
}

func (s *session) get(ctx context.Context, path string) (node, error) {
	return call(ctx, s, s.timing().call(), func(c client) (node, error) {
		data, stat, err := c.Get(path)
		if err != nil {
			return node{}, fmt.Errorf("get %s: %w", path, err)
		}
		return node{data, *stat}, nil
	})
}

// exists gives nil where there is no znode.
func (s *session) exists(ctx context.Context, path string) (*zk.Stat, error) {
	return call(ctx, s, s.timing().call(), func(c client) (*zk.Stat, error) {
		ok, stat, err := c.Exists(path)
		if err != nil || !ok {
			return nil, wrap("look at "+path, err)
		}
		return stat, nil
	})
}

func (s *session) children(ctx context.Context, path string) ([]string, error) {
	return call(ctx, s, s.timing().call(), func(c client) ([]string, error) {
		names, _, err := c.Children(path)
		return names, wrap("list "+path, err)
	})
}

// watch gives a channel that is closed, or gets a value, once the children of path change. At most one is outstanding
// for a session: the caller keeps it until it fires. One whose call came too late fires into nothing.
func (s *session) watch(ctx context.Context, path string) (<-chan zk.Event, error) {
	return call(ctx, s, s.timing().call(), func(c client) (<-chan zk.Event, error) {
		_, _, fired, err := c.ChildrenW(path)
		return fired, wrap("watch "+path, err)
	})
}

func (s *session) create(ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL) error {
	_, err := call(ctx, s, s.timing().call(), func(c client) (string, error) {
		return c.Create(path, data, flags, acl)
	})
	return wrap("create "+path, err)
}

func (s *session) set(ctx context.Context, path string, data []byte, version int32) error {
	_, err := call(ctx, s, s.timing().call(), func(c client) (*zk.Stat, error) {
		return c.Set(path, data, version)
	})
	return wrap("set "+path, err)
}

func (s *session) remove(ctx context.Context, path string, version int32) error {
	_, err := call(ctx, s, s.timing().call(), func(c client) (struct{}, error) {
		return struct{}{}, c.Delete(path, version)
	})
	return wrap("delete "+path, err)
}

// sync makes the connected server catch up with the ensemble, so that the next read is not stale.
func (s *session) sync(ctx context.Context, path string) error {
	_, err := call(ctx, s, s.timing().call(), func(c client) (string, error) {
		return c.Sync(path)
	})
	return wrap("sync "+path, err)
}

func (s *session) multi(ctx context.Context, limit time.Duration, ops ...any) ([]zk.MultiResponse, error) {
	return call(ctx, s, limit, func(c client) ([]zk.MultiResponse, error) {
		return c.Multi(ops...)
	})
}

func wrap(step string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", step, err)
}

// refusals are the errors that a server sends in reply to a request it did not apply.
var refusals = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoAuth, zk.ErrAuthFailed,
	zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals, zk.ErrSessionMoved, zk.ErrBadArguments,
}

// refused says that err is an answer: the request had no effect and will have none. Every other error
// leaves the outcome unknown.
func refused(err error) bool {
	return slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
}
