// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"errors"
	"net"
	"time"
)

// maxLine limits the length of a console's line in bytes, so that a hello with it fits.
const maxLine = 1024

// ServeConsole makes run the console in which other processes of the user run lines, by [RunLine]. One line runs at a
// time. The context ends when its process is gone. Serve is to be called as well.
func (f *Fabric) ServeConsole(run func(ctx context.Context, line string) (text string, err error)) {
	f.console.Store(&run)
}

// RunLine runs a line in the console of the fabric of a name, which another process of the user runs, and returns the
// console's output.
func RunLine(ctx context.Context, name, line string) (text string, err error) {
	if line == "" || len(line) > maxLine {
		return "", errors.New("infiniband: a line for the console has from 1 to 1024 bytes")
	}
	c, err := dialLocal(ctx, name)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var o output
	if err := exchangeHello(ctx, c, newReader(c, maxMessage), hello{Line: line}, kindOutput, &o); err != nil {
		return "", err
	}
	if o.Error != "" {
		err = errors.New(o.Error)
	}
	return o.Text, err
}

// runLine runs a line for a process at the other end of a connection.
func (f *Fabric) runLine(c *net.UnixConn, line string) error {
	run := f.console.Load()
	if run == nil {
		return errors.New("the fabric has no console")
	}
	c.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		c.Read(make([]byte, 1)) // nothing comes: it ends with the process
		cancel()
	}()
	select {
	case f.line <- struct{}{}:
		defer func() { <-f.line }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var o output
	text, err := (*run)(ctx, line)
	if o.Text = text; err != nil {
		o.Error = err.Error()
	}
	c.SetWriteDeadline(time.Now().Add(greetTime))
	c.Write(appendMessage(nil, kindOutput, o))
	return errAnswered
}
