// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Client is a connection to a server. It does one thing at a time. An [ErrLost] ends it; other
// errors do not.
type Client struct {
	link
	file uint32 // number of the last file
}

// Dial connects to a server at "host:port"; errors are those of [cm.Dial].
func Dial(ctx context.Context, dev *verbs.Device, address string, timeout time.Duration) (*Client, error) {
	conn, err := cm.Dial(ctx, dev, address, append(connOptions(), cm.WithPrivateData([]byte(hello)),
		cm.WithTimeout(timeout))...)
	if err != nil {
		reject := (*cm.RejectError)(nil)
		if errors.As(err, &reject) && reject.Reason == cm.ReasonConsumer {
			why := strings.TrimRight(string(reject.PrivateData), "\x00")
			return nil, fmt.Errorf("%w: %s", err, cmp.Or(Printable(why), "no reason was given: is it `ramjet serve`?"))
		}
		return nil, err
	}
	return &Client{link: newLink(conn, nil)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Stat returns the kind of file that a name is at the server.
func (c *Client) Stat(ctx context.Context, name string) (FileKind, error) {
	m, err := c.ask(ctx, stat{name})
	if err != nil {
		return None, err
	}
	i, ok := m.(info)
	if !ok {
		return None, unexpected(m)
	}
	return i.Kind, nil
}

// Mkdir creates a directory that its owner may write, unless it exists.
func (c *Client) Mkdir(ctx context.Context, name string) error {
	_, err := c.ask(ctx, mkdir{Name: name, attr: attr{Mode: 0o700}})
	return err
}

// SetAttr sets the permissions and the modification time of a directory.
func (c *Client) SetAttr(ctx context.Context, name string, info fs.FileInfo) error {
	_, err := c.ask(ctx, setAttr{name, attrOf(info)})
	return err
}

func attrOf(info fs.FileInfo) attr {
	return attr{Mode: uint32(info.Mode().Perm()), MTime: info.ModTime().UnixNano()}
}

// ask sends a message and returns the answer. A failure is returned as an error.
func (c *Client) ask(ctx context.Context, m message) (message, error) {
	if err := c.send(ctx, m); err != nil {
		return nil, err
	}
	return c.answer(ctx, 0)
}

func unexpected(m message) error { return fmt.Errorf("%w: an unexpected %T", errMessage, m) }
