// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCRcopy copies a file by rcopy as Debian has it, from Ramjet's librdmacm to rcopy on the kernel's
// device, and back. Its server never ends.
func TestCRcopy(t *testing.T) {
	const size = 2<<20 + 17
	libs := cLibraries(t)
	dir := t.TempDir()
	data := pattern(5, size)
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, data, 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	want := hex.EncodeToString(sum[:])
	for _, f := range []family{families[0], iwFamilies[0]} {
		c := cPair{family: f, libs: libs}
		const there = "/tmp/copied-by-c"
		copied := t.Run(f.toGuest(), func(t *testing.T) {
			g := dialGuest(t, false)
			server := g.spawnCM(rcopyPort, "rcopy")
			client := c.onRamjet(t, []string{"rcopy", source, f.guest + ":" + there})
			client.Run()
			c.wantSaid(t, "client on Ramjet", client.result(), strconv.Itoa(size)+" bytes in")
			r := g.run(programTimeout, "sha256sum", there)
			if wantProgram(t, "sha256sum", r); strings.Fields(r.Output)[0] != want {
				t.Errorf("the copy has the sum %s, want %s", r.Output, want)
			}
			server.kill()
		})
		t.Run(f.fromGuest(), func(t *testing.T) {
			if !copied {
				t.Skip("the guest has no file to copy")
			}
			g := dialGuest(t, false)
			server := c.onRamjet(t, []string{"rcopy"})
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			back := filepath.Join(dir, "back-"+f.peer)
			client := g.run(programTimeout, "rcopy", there, f.host+":"+back)
			for end := time.Now().Add(programTimeout); refused.MatchString(client.Output) && time.Now().Before(end); {
				client = g.run(programTimeout, "rcopy", there, f.host+":"+back)
			}
			server.Process.Kill()
			server.Wait()
			c.wantSaid(t, "client on "+f.peer, client, strconv.Itoa(size)+" bytes in")
			got, err := os.ReadFile(back)
			if err != nil || sha256.Sum256(got) != sum {
				t.Errorf("%d bytes came, %v, which are not what was sent", len(got), err)
			}
		})
	}
}
