// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// browser is a Chromium without a window, with one page. It gets commands of the Chrome DevTools Protocol over two
// pipes, its descriptors 3 and 4: JSON, each message ended by a zero byte.
type browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	id      int
	session string
	errors  []string // of the page, but for requests that failed
}

// browserTime bounds each wait: far more than it takes.
const browserTime = time.Minute

// startBrowser starts Chromium until the test ends, or skips the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium: `apt-get install chromium`")
	}
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + t.TempDir(), "--no-first-run",
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
		"--disable-sync",
		"--no-sandbox"} // root cannot have one, nor users without namespaces; it opens pages of this test only
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: ourIn, out: bufio.NewReader(ourOut)}
	t.Cleanup(func() {
		b.tell("Browser.close", nil)
		ended := time.AfterFunc(10*time.Second, cancel)
		cmd.Wait()
		ended.Stop()
		cancel()
		ourIn.Close()
		ourOut.Close()
	})
	late := time.AfterFunc(10*browserTime, cancel) // which ends the waits for it
	t.Cleanup(func() { late.Stop() })
	var target struct{ TargetID string }
	b.do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.do("Page.enable", nil, nil)
	b.do("Runtime.enable", nil, nil)
	b.do("Log.enable", nil, nil)
	return b
}

// message is one of the protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

func (b *browser) tell(method string, params any) error {
	b.id++
	m, err := json.Marshal(message{ID: b.id, SessionID: b.session, Method: method, Params: params})
	if err != nil {
		return err
	}
	_, err = b.in.Write(append(m, 0))
	return err
}

// do carries out a command.
func (b *browser) do(method string, params, result any) {
	b.t.Helper()
	err := b.tell(method, params)
	for err == nil {
		var line []byte
		if line, err = b.out.ReadBytes(0); err != nil {
			break
		}
		var m message
		if err = json.Unmarshal(line[:len(line)-1], &m); err != nil {
			break
		}
		switch {
		case m.Method == "Runtime.exceptionThrown",
			m.Method == "Log.entryAdded" && !bytes.Contains(line, []byte(`"source":"network"`)):
			b.errors = append(b.errors, string(line))
		case m.ID == b.id && m.Error != nil:
			err = errors.New(string(m.Error))
		case m.ID == b.id:
			if result != nil {
				err = json.Unmarshal(m.Result, result)
			}
			if err == nil {
				return
			}
		}
	}
	b.t.Fatalf("%s: %v", method, err)
}

// eval returns the value of an expression of the page, as JSON has it.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	return r.Result.Value
}

// await waits until an expression is true.
func (b *browser) await(expression string) {
	b.t.Helper()
	for end := time.Now().Add(browserTime); b.eval("Boolean("+expression+
		")") != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("it does not come to be: %s\n%v\n%s", expression, b.eval("document.body.innerText"),
				strings.Join(b.errors, "\n"))
		}
	}
}

// open opens a page of a width and height, and colors.
func (b *browser) open(url string, width, height int, scheme string) {
	b.t.Helper()
	b.size(width, height, scheme)
	b.do("Page.navigate", map[string]any{"url": "about:blank"}, nil) // the text behind the number sign is new, too
	b.do("Page.navigate", map[string]any{"url": url}, nil)
	b.await("document.readyState === 'complete' && location.href.startsWith('http')")
}

func (b *browser) size(width, height int, scheme string) {
	b.t.Helper()
	b.do("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.do("Emulation.setEmulatedMedia",
		map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// press presses a key.
func (b *browser) press(key string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "Home": 36, "End": 35}
	down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		down["text"] = "\r"
	}
	b.do("Input.dispatchKeyEvent", down, nil)
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key,
		"windowsVirtualKeyCode": codes[key]}, nil)
}

// picture writes the page as a picture into the folder that DASH_PICTURES names, to be looked at.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("DASH_PICTURES")
	if folder == "" {
		return
	}
	var r struct{ Data string }
	b.do("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(fmt.Sprintf("%s/%s.png", folder, name), png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestPictures takes pictures of a dashboard that runs, for people. One connected queue pair has to send packets.
func TestPictures(t *testing.T) {
	url := os.Getenv("DASH_URL")
	if url == "" {
		t.Skip("DASH_URL names no dashboard")
	}
	b := startBrowser(t)
	for _, c := range []struct {
		name          string
		width, height int
		scheme        string
	}{{"wide-light", 1600, 1000, "light"}, {"wide-dark", 1600, 1000, "dark"}, {"narrow", 360, 740, "light"},
		{"narrowest", 320, 640, "dark"}} {
		b.open(url, c.width, c.height, c.scheme)
		b.await("document.querySelectorAll('#list .open').length > 0")
		time.Sleep(2 * time.Second)
		b.picture(c.name)
		b.eval("document.querySelector('#devices').scrollIntoView()")
		b.picture(c.name + "-rows")
		b.eval("[...document.querySelectorAll('#list tbody tr')].filter(r => r.innerText.includes('RTS') && !/(shm|kernel):/.test(r.closest('tbody').innerText))[0].querySelector('.open').click()")
		b.await("document.querySelector('#ladder').shadowRoot.querySelector('svg')")
		time.Sleep(3 * time.Second)
		b.picture(c.name + "-detail")
		b.eval("document.querySelector('#ladder-title').scrollIntoView()")
		b.picture(c.name + "-ladder")
	}
	if len(b.errors) > 0 {
		t.Error(strings.Join(b.errors, "\n"))
	}
}
