// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/trace"
)

// AddPcapFlag adds --pcap to a command. packets says which are recorded.
func AddPcapFlag(c *cobra.Command, file *string, packets string) {
	c.Flags().StringVar(file, "pcap", "", "write "+packets+" to `file` as pcapng, for Wireshark and ramjet ladder")
	c.MarkFlagFilename("pcap", "pcapng", "pcap")
}

// EveryPacket is the selection of most commands: the packets of the device that they open.
const EveryPacket = "every packet"

// Recording is the file of --pcap. A nil recording records nothing.
type Recording struct {
	file   *os.File
	Writer *trace.Writer
	blocks blockCounter
	ended  sync.Once
}

// NewRecording creates the file; path is empty for no recording. iface names the device.
func NewRecording(path, iface string) (*Recording, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, Usagef("--pcap: %w: give a file that can be written", err)
	}
	r := &Recording{file: file}
	if r.Writer, err = trace.NewWriter(io.MultiWriter(file, &r.blocks), iface); err != nil {
		file.Close()
		return nil, err
	}
	return r, nil
}

// Recordable reports at once that a device of the kind has nothing to record, as opening it would do later.
func (f *DeviceFlags) Recordable() error {
	kind, _, err := f.Kind()
	switch {
	case err != nil:
		return usage.Of(err)
	case f.PCAP != "" && kind.Unrecorded != "":
		return Usagef("--pcap: %s: %s", kind.Name, kind.Unrecorded)
	}
	return nil
}

// options returns the options that make ramjet.Open record.
func (r *Recording) options() []ramjet.Option {
	if r == nil {
		return nil
	}
	return []ramjet.Option{ramjet.WithTrace(r.Writer)}
}

// Finish completes the file and logs its contents. Devices that record must be closed by then.
func (r *Recording) Finish(log io.Writer) (err error) {
	if r == nil {
		return nil
	}
	r.ended.Do(func() {
		err = r.Writer.Close()
		if cerr := r.file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			err = fmt.Errorf("--pcap: the recording is not complete: %w", err)
			return
		}
		fmt.Fprintf(log, "%s: %d packets written, %d left out\n", r.file.Name(), r.blocks.packets, r.Writer.Dropped())
	})
	return err
}

// Discard removes the file of a recording that never began.
func (r *Recording) Discard() {
	if r == nil {
		return
	}
	r.Writer.Close()
	info, err := r.file.Stat()
	r.file.Close()
	if err == nil {
		removeSame(r.file.Name(), info)
	}
}

// blockCounter counts the packets in a stream of pcapng blocks. Each block starts with its type and
// its length in bytes; type 6 is a packet.
type blockCounter struct {
	packets uint64
	head    []byte // of the next block, as far as it has arrived
	skip    int    // rest of the current block
}

func (c *blockCounter) Write(p []byte) (int, error) {
	const headLen, enhancedPacket = 8, 6
	for rest := p; len(rest) > 0; {
		if c.skip > 0 {
			n := min(c.skip, len(rest))
			c.skip -= n
			rest = rest[n:]
			continue
		}
		n := min(headLen-len(c.head), len(rest))
		c.head = append(c.head, rest[:n]...)
		rest = rest[n:]
		if len(c.head) < headLen {
			continue
		}
		if binary.LittleEndian.Uint32(c.head) == enhancedPacket {
			c.packets++
		}
		c.skip = int(binary.LittleEndian.Uint32(c.head[4:])) - headLen
		c.head = c.head[:0]
	}
	return len(p), nil
}
