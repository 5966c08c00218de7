// SPDX-License-Identifier: Apache-2.0

package valkey_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	valkeygo "github.com/valkey-io/valkey-go"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/valkey"
	"github.com/ramjet-rdma/ramjet/valkey/internal/resp"
)

// Clients run against a server: by default one in Go on a Listener, over each kind of device. With
// RAMJET_VALKEY_SERVER, the address of a valkey-server with RDMA, and RAMJET_DEVICE, the device to
// reach it from, they run against that one.
func clients(t *testing.T, f func(t *testing.T, dial dialFunc, addr string)) {
	if addr := os.Getenv("RAMJET_VALKEY_SERVER"); addr != "" {
		dev, err := ramjet.Open(os.Getenv("RAMJET_DEVICE"))
		ok(t, err)
		defer dev.Close()
		f(t, (&valkey.Dialer{Device: dev}).DialContext, addr)
		return
	}
	kinds(t, func(t *testing.T, kind string) {
		l, err := valkey.Listen(t.Context(), open(t, kind), ":0")
		ok(t, err)
		defer l.Close()
		go new(resp.Server).Serve(l)
		f(t, (&valkey.Dialer{Device: open(t, kind)}).DialContext, l.Addr().String())
	})
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// goRedis returns a client whose commands take as long as their contexts allow.
func goRedis(t *testing.T, dial dialFunc, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, Dialer: dial, DialTimeout: patience, ReadTimeout: -1,
		ContextTimeoutEnabled: true})
	t.Cleanup(func() { c.Close() })
	ok(t, c.FlushAll(t.Context()).Err())
	return c
}

func TestGoRedis(t *testing.T) {
	clients(t, func(t *testing.T, dial dialFunc, addr string) {
		ctx, c := within(t), goRedis(t, dial, addr)
		ok(t, c.Set(ctx, "name", "value", 0).Err())
		if v, err := c.Get(ctx, "name").Result(); v != "value" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		if _, err := c.Get(ctx, "nothing").Result(); !errors.Is(err, redis.Nil) {
			t.Error(err)
		}
		ok(t, c.MSet(ctx, "a", "1", "b", "2").Err())
		if v, err := c.MGet(ctx, "a", "nothing", "b").Result(); fmt.Sprint(v) != "[1 <nil> 2]" || err != nil {
			t.Error(v, err)
		}
		if n, err := c.Append(ctx, "a", "23").Result(); n != 3 || err != nil {
			t.Error(n, err)
		}
		if n, err := c.Del(ctx, "a", "b", "nothing").Result(); n != 2 || err != nil {
			t.Error(n, err)
		}
		if err := c.Do(ctx, "no-such-command").Err(); err == nil {
			t.Error("a command that is none")
		}
	})
}

// A pipeline of more commands than there are receives, with replies of many sizes.
func TestPipeline(t *testing.T) {
	clients(t, func(t *testing.T, dial dialFunc, addr string) {
		ctx, c := within(t), goRedis(t, dial, addr)
		const n = 20000
		value := bytes.Repeat([]byte("pipeline"), 200)
		got, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range n {
				p.Set(ctx, strconv.Itoa(i), value[:i%len(value)], 0)
			}
			return nil
		})
		if err != nil || len(got) != n {
			t.Fatal(len(got), err)
		}
		got, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range n {
				p.Get(ctx, strconv.Itoa(i))
			}
			return nil
		})
		ok(t, err)
		for i, cmd := range got {
			if v, err := cmd.(*redis.StringCmd).Bytes(); err != nil || !bytes.Equal(v, value[:i%len(value)]) {
				t.Fatalf("key %d has %d bytes, %v", i, len(v), err)
			}
		}
	})
}

// largeValue returns how long a large value is: 512 MB, the longest that Valkey takes, where there is memory for it.
func largeValue(t *testing.T) int {
	s := os.Getenv("RAMJET_VALKEY_LARGE")
	if s == "" {
		return 48 << 20
	}
	size, err := strconv.Atoi(s)
	ok(t, err)
	return size
}

func TestLargeValue(t *testing.T) {
	size := largeValue(t)
	clients(t, func(t *testing.T, dial dialFunc, addr string) {
		ctx, cancel := context.WithTimeout(t.Context(), patience*time.Duration(1+size>>26))
		defer cancel()
		c := goRedis(t, dial, addr)
		data := make([]byte, size)
		rand.NewChaCha8([32]byte{1}).Read(data)
		want := sha256.Sum256(data)
		start := time.Now()
		ok(t, c.Set(ctx, "large", data, 0).Err())
		set := time.Since(start)
		start = time.Now()
		got, err := c.Get(ctx, "large").Bytes()
		ok(t, err)
		if t.Logf("%d bytes: SET %v, GET %v", size, set, time.Since(start)); sha256.Sum256(got) != want {
			t.Errorf("%d bytes, and others", len(got))
		}
		// In a pipeline, with small ones before and behind it.
		_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "before", "1", 0)
			p.Set(ctx, "large", data, 0)
			p.Set(ctx, "behind", "2", 0)
			return nil
		})
		ok(t, err)
		all, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range []string{"before", "large", "behind"} {
				p.Get(ctx, key)
			}
			return nil
		})
		ok(t, err)
		got, _ = all[1].(*redis.StringCmd).Bytes()
		before, behind := all[0].(*redis.StringCmd).Val(), all[2].(*redis.StringCmd).Val()
		if before != "1" || behind != "2" || sha256.Sum256(got) != want {
			t.Errorf("in a pipeline: %q, %d bytes, %q", before, len(got), behind)
		}
		ok(t, c.Del(ctx, "large", "before", "behind").Err())
	})
}

func TestPubSub(t *testing.T) {
	clients(t, func(t *testing.T, dial dialFunc, addr string) {
		ctx, c := within(t), goRedis(t, dial, addr)
		sub := c.Subscribe(ctx, "news")
		defer sub.Close()
		_, err := sub.Receive(ctx)
		ok(t, err)
		const n = 3000
		published := make(chan error, 1)
		go func() {
			var err error
			for i := 0; i < n && err == nil; i++ {
				err = c.Publish(ctx, "news", i).Err()
			}
			published <- err
		}()
		for i := range n {
			m, err := sub.ReceiveMessage(ctx)
			ok(t, err)
			if m.Payload != strconv.Itoa(i) {
				t.Fatalf("message %d is %q", i, m.Payload)
			}
		}
		// The last message can be here before the answer to the PUBLISH that sent it.
		ok(t, <-published)
	})
}

// Many connections that count the same number.
func TestConnectionsCount(t *testing.T) {
	clients(t, func(t *testing.T, dial dialFunc, addr string) {
		ctx := within(t)
		goRedis(t, dial, addr)
		const conns, each = 64, 20
		c := redis.NewClient(&redis.Options{Addr: addr, Dialer: dial, PoolSize: conns, MinIdleConns: conns,
			ReadTimeout: patience, DialTimeout: patience, PoolTimeout: patience})
		defer c.Close()
		var all sync.WaitGroup
		for range conns {
			all.Go(func() {
				for range each {
					if err := c.Incr(ctx, "count").Err(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if n, err := c.Get(ctx, "count").Int(); n != conns*each || err != nil {
			t.Error(n, err)
		}
	})
}

func TestValkeyGo(t *testing.T) {
	clients(t, func(t *testing.T, dial dialFunc, addr string) {
		ctx := within(t)
		c, err := valkeygo.NewClient(valkeygo.ClientOption{InitAddress: []string{addr},
			ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: patience,
			Dialer: net.Dialer{Timeout: patience},
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return dial(ctx, "tcp", addr)
			}})
		ok(t, err)
		defer c.Close()
		var all sync.WaitGroup
		for i := range 50 { // it sends what several goroutines ask for together
			all.Go(func() {
				key, value := fmt.Sprint("key", i), fmt.Sprint("value", i)
				if err := c.Do(ctx, c.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
					t.Error(err)
				}
				if v, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString(); v != value || err != nil {
					t.Errorf("%q, %v", v, err)
				}
			})
		}
		all.Wait()
	})
}

// A connection that is idle for longer than Valkey's keep-alives take works afterwards.
func TestIdleClient(t *testing.T) {
	if os.Getenv("RAMJET_VALKEY_SERVER") == "" {
		t.Skip("TestKeepAlive does this without a valkey-server, and in less time")
	}
	clients(t, func(t *testing.T, dial dialFunc, addr string) {
		ctx, c := within(t), goRedis(t, dial, addr)
		ok(t, c.Set(ctx, "idle", "1", 0).Err())
		time.Sleep(3*valkey.DefaultKeepAlive + valkey.DefaultKeepAlive/2)
		if v, err := c.Get(ctx, "idle").Result(); v != "1" || err != nil {
			t.Error(v, err)
		}
	})
}
