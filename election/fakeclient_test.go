package election

import (
	"maps"
	"strings"

	"github.com/go-zookeeper/zk"
)

// The calls of a client, each under the name that faults judge it by.

func (c *fakeClient) Exists(path string) (ok bool, stat *zk.Stat, err error) {
	err = c.do("exists", func(e *fakeEnsemble) error {
		var n znode
		n, ok = e.nodes[path]
		stat = &n.stat
		return nil
	})
	return ok, stat, err
}

func (c *fakeClient) Get(path string) (data []byte, stat *zk.Stat, err error) {
	err = c.do("get", func(e *fakeEnsemble) error {
		n, err := e.check(path, -1)
		data, stat = n.data, &n.stat
		return err
	})
	return data, stat, err
}

func (c *fakeClient) Children(path string) (names []string, stat *zk.Stat, err error) {
	err = c.do("children", func(e *fakeEnsemble) error {
		n, err := e.check(path, -1)
		for p := range e.nodes {
			if name, ok := strings.CutPrefix(p, path+"/"); ok && !strings.Contains(name, "/") {
				names = append(names, name)
			}
		}
		stat = &n.stat
		return err
	})
	return names, stat, err
}

func (c *fakeClient) ChildrenW(path string) ([]string, *zk.Stat, <-chan zk.Event, error) {
	w := fakeWatch{c, path, make(chan zk.Event, 1)}
	err := c.do("watch", func(e *fakeEnsemble) error {
		_, err := e.check(path, -1)
		if err == nil {
			e.watches = append(e.watches, w)
		}
		return err
	})
	return nil, nil, w.fired, err
}

func (c *fakeClient) Create(path string, data []byte, flags int32, _ []zk.ACL) (string, error) {
	err := c.do("create", func(e *fakeEnsemble) error { return e.create(c.owner(flags), path, data) })
	return path, err
}

func (c *fakeClient) Set(path string, data []byte, version int32) (*zk.Stat, error) {
	var stat zk.Stat
	err := c.do("set", func(e *fakeEnsemble) (err error) {
		stat, err = e.set(path, data, version)
		return err
	})
	return &stat, err
}

func (c *fakeClient) Delete(path string, version int32) error {
	return c.do("delete", func(e *fakeEnsemble) error { return e.remove(path, version) })
}

func (c *fakeClient) Sync(path string) (string, error) {
	return path, c.do("sync", func(*fakeEnsemble) error { return nil })
}

// Multi is named for the faults by what it is for: race, renew or give up.
func (c *fakeClient) Multi(ops ...any) ([]zk.MultiResponse, error) {
	name := "race"
	if _, ok := ops[0].(*zk.CheckVersionRequest); ok {
		name = "renew"
		if _, ok := ops[1].(*zk.DeleteRequest); ok {
			name = "give up"
		}
	}
	answers := make([]zk.MultiResponse, len(ops))
	err := c.do(name, func(e *fakeEnsemble) (err error) {
		before := maps.Clone(e.nodes)
		defer func() {
			if err != nil {
				e.nodes = before
			}
		}()
		for i, op := range ops {
			switch o := op.(type) {
			case *zk.CreateRequest:
				err = e.create(c.owner(o.Flags), o.Path, o.Data)
			case *zk.SetDataRequest:
				var stat zk.Stat
				stat, err = e.set(o.Path, o.Data, o.Version)
				answers[i].Stat = &stat
			case *zk.DeleteRequest:
				err = e.remove(o.Path, o.Version)
			case *zk.CheckVersionRequest:
				_, err = e.check(o.Path, o.Version)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return answers, err
}

func (c *fakeClient) owner(flags int32) int64 {
	if flags == zk.FlagEphemeral {
		return c.id
	}
	return 0
}

func (c *fakeClient) SessionID() int64 { return c.id }

// Close ends the session at once where the link is up; else the session is left to expire.
func (c *fakeClient) Close() {
	up := c.isOpen()
	close(c.closed)
	if up {
		c.e.expire(c.id)
	}
}
