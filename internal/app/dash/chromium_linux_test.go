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
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// chromium is a Chromium without a window, which the pages of all tests share. It gets commands of the Chrome DevTools
// Protocol over two pipes, its descriptors 3 and 4: JSON, each message ended by a zero byte.
type chromium struct {
	cmd  *exec.Cmd
	dir  string
	in   *os.File
	kill context.CancelFunc
	gone chan struct{} // closed when it says no more

	lock    sync.Mutex
	id      int
	answers map[int]chan message
	pages   map[string]*browser // by session
}

// browser is a page of Chromium, of a test's own.
type browser struct {
	t       *testing.T
	of      *chromium
	session string
	errors  []string // of the page, but for requests that failed; under the lock of the Chromium
}

// browserTime bounds each wait: far more than it takes.
const browserTime = time.Minute

// started is the Chromium of all tests, nil before the first one that needs it.
var started struct {
	sync.Mutex
	*chromium
}

func TestMain(m *testing.M) {
	testrun.Waits()
	status := m.Run()
	if c := started.chromium; c != nil {
		c.close()
	}
	os.Exit(status)
}

// startChromium starts Chromium, or skips the test.
func startChromium(t *testing.T) *chromium {
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
	dir, err := os.MkdirTemp("", "ramjet-dash")
	if err != nil {
		t.Fatal(err)
	}
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + dir, "--no-first-run",
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
		"--disable-sync",
		// Each page is treated as the only one.
		"--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		"--disable-background-timer-throttling",
		"--no-sandbox"} // root cannot have one, nor users without namespaces; it opens pages of this test only
	ctx, cancel := context.WithCancel(context.Background())
	c := &chromium{cmd: exec.CommandContext(ctx, path, args...), dir: dir, in: ourIn, kill: cancel,
		gone: make(chan struct{}), answers: map[int]chan message{}, pages: map[string]*browser{}}
	c.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	go c.read(ourOut)
	return c
}

// close ends Chromium.
func (c *chromium) close() {
	c.tell("", "Browser.close", nil)
	ended := time.AfterFunc(10*time.Second, c.kill)
	c.cmd.Wait()
	ended.Stop()
	c.kill()
	c.in.Close()
	<-c.gone
	os.RemoveAll(c.dir)
}

// startBrowser opens a page until the test ends, or skips the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	started.Lock()
	if started.chromium == nil {
		// Unlocked if the test is skipped, too.
		func() { defer started.Unlock(); started.chromium = startChromium(t) }()
	} else {
		started.Unlock()
	}
	b := &browser{t: t, of: started.chromium}
	var own struct{ BrowserContextID string }
	b.do("Target.createBrowserContext", nil, &own)
	var target struct{ TargetID string }
	b.do("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": own.BrowserContextID,
		"newWindow": true}, &target)
	var attached struct{ SessionID string }
	b.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.of.lock.Lock()
	b.of.pages[attached.SessionID] = b
	b.of.lock.Unlock()
	t.Cleanup(func() { // which closes the page
		b.of.tell("", "Target.disposeBrowserContext", map[string]any{"browserContextId": own.BrowserContextID})
	})
	b.session = attached.SessionID
	b.do("Page.enable", nil, nil)
	b.do("Runtime.enable", nil, nil)
	b.do("Log.enable", nil, nil)
	b.do("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
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

// tell gives a command, and returns where its answer comes.
func (c *chromium) tell(session, method string, params any) (<-chan message, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.id++
	m, err := json.Marshal(message{ID: c.id, SessionID: session, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	answer := make(chan message, 1)
	c.answers[c.id] = answer
	_, err = c.in.Write(append(m, 0))
	return answer, err
}

// read takes what Chromium says, until it ends.
func (c *chromium) read(from *os.File) {
	defer close(c.gone)
	defer from.Close()
	for r := bufio.NewReader(from); ; {
		line, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(line[:len(line)-1], &m); err != nil {
			c.kill()
			return
		}
		c.lock.Lock()
		switch b := c.pages[m.SessionID]; {
		case m.ID != 0:
			if answer := c.answers[m.ID]; answer != nil {
				delete(c.answers, m.ID)
				answer <- m
			}
		case b == nil:
		case m.Method == "Runtime.exceptionThrown",
			m.Method == "Log.entryAdded" && !bytes.Contains(line, []byte(`"source":"network"`)):
			b.errors = append(b.errors, string(line))
		}
		c.lock.Unlock()
	}
}

// do carries out a command.
func (b *browser) do(method string, params, result any) {
	b.t.Helper()
	answer, err := b.of.tell(b.session, method, params)
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			err = errors.New(string(m.Error))
		} else if result != nil {
			err = json.Unmarshal(m.Result, result)
		}
	case <-b.of.gone:
		err = errors.New("Chromium has ended")
	case <-time.After(5 * browserTime):
		err = errors.New("Chromium does not answer")
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// faults returns the errors of the page so far, a line each.
func (b *browser) faults() string {
	b.of.lock.Lock()
	defer b.of.lock.Unlock()
	return strings.Join(b.errors, "\n")
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
				b.faults())
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
	if faults := b.faults(); faults != "" {
		t.Error(faults)
	}
}
