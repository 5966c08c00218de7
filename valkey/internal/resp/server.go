// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Server has strings by their names, and clients that listen to channels. The zero value is empty.
type Server struct {
	mu       sync.RWMutex
	strings  map[string][]byte
	channels map[string]map[*client]bool
}

// Serve serves the connections of l until it is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go s.ServeConn(c)
	}
}

// client is a connection. Replies are written before it waits for more commands, and published messages at once.
type client struct {
	*Server
	conn     net.Conn
	in       reader
	mu       sync.Mutex // guards out
	out      writer
	channels map[string]bool // of the connection's goroutine
}

// ServeConn serves one connection, and closes it.
func (s *Server) ServeConn(c net.Conn) {
	defer c.Close()
	cl := &client{Server: s, conn: c, out: writer{Writer: bufio.NewWriterSize(c, 64<<10)}, channels: map[string]bool{}}
	cl.in = reader{bufio.NewReaderSize(cl, 64<<10)}
	defer cl.leave()
	for {
		args, err := cl.in.command()
		cl.mu.Lock()
		switch {
		case errors.Is(err, errSyntax):
			cl.out.failure(err.Error())
		case err == nil && len(args) > 0:
			err = cl.do(strings.ToLower(string(args[0])), args[1:])
		}
		if err != nil {
			cl.out.Flush()
		}
		cl.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read reads from the connection, once all replies are written.
func (c *client) Read(b []byte) (int, error) {
	c.mu.Lock()
	err := c.out.Flush()
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.conn.Read(b)
}

// command is a request that a client can make: its least number of arguments, and the function that answers it.
type command struct {
	args int
	do   func(c *client, args [][]byte) error
}

func reply(f func(c *client, args [][]byte)) func(*client, [][]byte) error {
	return func(c *client, args [][]byte) error { f(c, args); return nil }
}

var commands map[string]command

func init() { // it refers to itself: COMMAND
	done := reply(func(c *client, _ [][]byte) { c.out.simple("OK") })
	commands = map[string]command{
		"append":   {2, reply((*client).appendTo)},
		"client":   {1, done},
		"command":  {0, reply(func(c *client, _ [][]byte) { c.out.array(0) })},
		"config":   {2, reply((*client).config)},
		"dbsize":   {0, reply((*client).size)},
		"del":      {1, reply((*client).remove)},
		"echo":     {1, reply(func(c *client, args [][]byte) { c.out.bulk(args[0]) })},
		"flushall": {0, reply((*client).clear)},
		"get":      {1, reply((*client).get)},
		"hello":    {0, reply((*client).hello)},
		"incr":     {1, reply((*client).increment)},
		"info": {0,
			reply(func(c *client, _ [][]byte) { c.out.bulk([]byte("# Server\r\nserver_name:ramjet\r\n")) })},
		"mget":        {1, reply((*client).getMany)},
		"mset":        {2, reply((*client).setMany)},
		"ping":        {0, reply((*client).ping)},
		"publish":     {2, reply((*client).publish)},
		"quit":        {0, func(c *client, _ [][]byte) error { c.out.simple("OK"); return io.EOF }},
		"select":      {1, done},
		"set":         {2, reply((*client).set)},
		"subscribe":   {1, reply((*client).subscribe)},
		"unsubscribe": {0, reply((*client).unsubscribe)},
	}
}

// do carries out a command. The error ends the connection.
func (c *client) do(name string, args [][]byte) error {
	switch cmd, ok := commands[name]; {
	case !ok:
		c.out.failure("unknown command " + strconv.Quote(name[:min(len(name), 128)]) + ", there are " +
			strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
	case len(args) < cmd.args:
		c.out.failure("wrong number of arguments for '" + name + "' command")
	default:
		return cmd.do(c, args)
	}
	return nil
}

func (c *client) ping(args [][]byte) {
	if len(args) > 0 {
		c.out.bulk(args[0])
		return
	}
	c.out.simple("PONG")
}

// hello chooses the protocol.
func (c *client) hello(args [][]byte) {
	proto := 2
	if len(args) > 0 {
		var err error
		if proto, err = strconv.Atoi(string(args[0])); err != nil || proto != 2 && proto != 3 {
			c.out.WriteString("-NOPROTO unsupported protocol version\r\n")
			return
		}
	}
	c.out.three = proto == 3
	c.out.mapOf(3)
	c.out.bulk([]byte("server"))
	c.out.bulk([]byte("ramjet"))
	c.out.bulk([]byte("version"))
	c.out.bulk([]byte("1.0.0"))
	c.out.bulk([]byte("proto"))
	c.out.number(proto)
}

// config has no parameters, of which benchmarks ask two.
func (c *client) config(args [][]byte) {
	if strings.EqualFold(string(args[0]), "get") {
		c.out.mapOf(1)
		c.out.bulk(args[1])
		c.out.bulk(nil)
		return
	}
	c.out.failure("there is nothing to configure")
}

func (c *client) get(args [][]byte) { c.value(string(args[0])) }

func (c *client) value(name string) {
	c.Server.mu.RLock()
	v, ok := c.strings[name]
	c.Server.mu.RUnlock()
	if !ok {
		c.out.null()
		return
	}
	c.out.bulk(v)
}

func (c *client) getMany(args [][]byte) {
	c.out.array(len(args))
	for _, a := range args {
		c.value(string(a))
	}
}

func (c *client) set(args [][]byte) {
	if len(args) > 2 {
		c.out.failure("SET takes no options")
		return
	}
	c.setMany(args)
}

func (c *client) setMany(args [][]byte) {
	if len(args)%2 != 0 {
		c.out.failure("wrong number of arguments for 'mset' command")
		return
	}
	c.Server.mu.Lock()
	if c.strings == nil {
		c.strings = map[string][]byte{}
	}
	for i := 0; i < len(args); i += 2 {
		c.strings[string(args[i])] = args[i+1]
	}
	c.Server.mu.Unlock()
	c.out.simple("OK")
}

// change replaces a string by f's result.
func (c *client) change(name string, f func(old []byte) ([]byte, error)) error {
	c.Server.mu.Lock()
	defer c.Server.mu.Unlock()
	v, err := f(c.strings[name])
	if err != nil {
		return err
	}
	if c.strings == nil {
		c.strings = map[string][]byte{}
	}
	c.strings[name] = v
	return nil
}

func (c *client) appendTo(args [][]byte) {
	n := 0
	err := c.change(string(args[0]), func(old []byte) ([]byte, error) {
		if n = len(old) + len(args[1]); n > maxBulk {
			return nil, errors.New("string exceeds maximum allowed size")
		}
		return slices.Concat(old, args[1]), nil // others may be reading the old one
	})
	if err != nil {
		c.out.failure(err.Error())
		return
	}
	c.out.number(n)
}

func (c *client) increment(args [][]byte) {
	n := 0
	err := c.change(string(args[0]), func(old []byte) ([]byte, error) {
		if len(old) > 0 {
			var err error
			if n, err = strconv.Atoi(string(old)); err != nil {
				return nil, errors.New("value is not an integer or out of range")
			}
		}
		n++
		return strconv.AppendInt(nil, int64(n), 10), nil
	})
	if err != nil {
		c.out.failure(err.Error())
		return
	}
	c.out.number(n)
}

func (c *client) remove(args [][]byte) {
	n := 0
	c.Server.mu.Lock()
	for _, a := range args {
		if _, ok := c.strings[string(a)]; ok {
			delete(c.strings, string(a))
			n++
		}
	}
	c.Server.mu.Unlock()
	c.out.number(n)
}

func (c *client) size([][]byte) {
	c.Server.mu.RLock()
	defer c.Server.mu.RUnlock()
	c.out.number(len(c.strings))
}

func (c *client) clear([][]byte) {
	c.Server.mu.Lock()
	c.strings = nil
	c.Server.mu.Unlock()
	c.out.simple("OK")
}

// publish sends a message to the clients that listen. It has its own client's lock, and takes the locks of others only
// after that is free: two that publish to each other would wait for each other.
func (c *client) publish(args [][]byte) {
	c.Server.mu.RLock()
	listeners := slices.Collect(maps.Keys(c.Server.channels[string(args[0])]))
	c.Server.mu.RUnlock()
	c.out.number(len(listeners))
	c.mu.Unlock()
	for _, l := range listeners {
		l.mu.Lock()
		l.out.push(3)
		l.out.bulk([]byte("message"))
		l.out.bulk(args[0])
		l.out.bulk(bytes.Clone(args[1]))
		l.out.Flush() // a write that fails here fails again in the listener's goroutine
		l.mu.Unlock()
	}
	c.mu.Lock()
}

func (c *client) subscribe(args [][]byte) {
	for _, a := range args {
		name := string(a)
		c.Server.mu.Lock()
		if c.Server.channels == nil {
			c.Server.channels = map[string]map[*client]bool{}
		}
		if c.Server.channels[name] == nil {
			c.Server.channels[name] = map[*client]bool{}
		}
		c.Server.channels[name][c] = true
		c.Server.mu.Unlock()
		c.channels[name] = true
		c.subscribed("subscribe", a)
	}
}

func (c *client) unsubscribe(args [][]byte) {
	if len(args) == 0 {
		for name := range c.channels {
			args = append(args, []byte(name))
		}
	}
	for _, a := range args {
		c.forget(string(a))
		c.subscribed("unsubscribe", a)
	}
}

func (c *client) subscribed(what string, channel []byte) {
	c.out.push(3)
	c.out.bulk([]byte(what))
	c.out.bulk(channel)
	c.out.number(len(c.channels))
}

func (c *client) forget(name string) {
	delete(c.channels, name)
	c.Server.mu.Lock()
	defer c.Server.mu.Unlock()
	if delete(c.Server.channels[name], c); len(c.Server.channels[name]) == 0 {
		delete(c.Server.channels, name)
	}
}

// leave ends a client's subscriptions.
func (c *client) leave() {
	for name := range c.channels {
		c.forget(name)
	}
}
