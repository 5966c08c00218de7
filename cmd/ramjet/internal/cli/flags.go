// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// connectTime limits how long a client waits for a connection.
const connectTime = 10 * time.Second

// WaitTime is a flag value: a time with its unit, more than none.
type WaitTime time.Duration

func (w *WaitTime) String() string {
	if *w == 0 {
		return ""
	}
	return time.Duration(*w).String()
}

// Type returns the name of the value in a command's help.
func (w *WaitTime) Type() string { return "time" }

// Set parses text such as 500ms, 10s, 2m.
func (w *WaitTime) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time: give more than 0, with a unit, such as 500ms or 10s", text)
	}
	*w = WaitTime(d)
	return nil
}

// AddTimeoutFlag adds --timeout to a command that dials.
func AddTimeoutFlag(c *cobra.Command, d *time.Duration) {
	*d = connectTime
	c.Flags().Var((*WaitTime)(d), "timeout", "client: the `time` to wait for the connection")
}

// portNumber is a flag value: a port.
type portNumber struct {
	n     *uint16
	least uint64
}

func (p portNumber) String() string {
	if p.n == nil {
		return ""
	}
	return strconv.Itoa(int(*p.n))
}

// Type returns the name of the value in a command's help.
func (p portNumber) Type() string { return "port" }

// Set parses a port number.
func (p portNumber) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n < p.least {
		return fmt.Errorf("%q is not a port: give %d to 65535", text, p.least)
	}
	*p.n = uint16(n)
	return nil
}

// AddPortFlag adds --port to a command. Port 0, which lets the system choose, is accepted only if
// any is set.
func AddPortFlag(c *cobra.Command, p *uint16, standard uint16, usage string, any bool) {
	least := uint64(1)
	if any {
		least = 0
	}
	*p = standard
	c.Flags().VarP(portNumber{p, least}, "port", "p", usage)
}

// Seconds is a flag value: a time with its unit, or seconds, as perftest takes them.
type Seconds time.Duration

func (d *Seconds) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type returns the name of the value in a command's help.
func (d *Seconds) Type() string { return "time" }

// Set parses text such as 2, 0.5, 500ms.
func (d *Seconds) Set(text string) error {
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s < 1e6 {
		*d = Seconds(s * float64(time.Second))
		return nil
	}
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a time: give seconds, or such as 500ms", text)
	}
	*d = Seconds(v)
	return nil
}
