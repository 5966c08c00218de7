// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package ibverbs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// layout is a structure: in C, in Go, and its fields by both names.
type layout struct {
	c      string
	typ    reflect.Type
	fields [][2]string
}

// number is an expression of C, and its value in Go.
type number struct {
	c     string
	value uint64
}

// A C program says the same as the structures and constants in Go.
func TestLayoutIsThatOfC(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler to compare with: apt-get install gcc libc6-dev libibverbs-dev")
	}
	var program strings.Builder
	var want []string
	program.WriteString("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n")
	line := func(text, expression string, value uint64) {
		fmt.Fprintf(&program, "printf(\"%%s %%llu\\n\", %q, (unsigned long long)(%s));\n", text, expression)
		want = append(want, fmt.Sprintf("%s %d", text, value))
	}
	for _, l := range layouts {
		line(l.c, fmt.Sprintf("sizeof(%s)", l.c), uint64(l.typ.Size()))
		for _, f := range l.fields {
			field, ok := l.typ.FieldByName(f[1])
			if !ok {
				t.Fatalf("%v has no field %s", l.typ, f[1])
			}
			line(l.c+"."+f[0], fmt.Sprintf("offsetof(%s, %s)", l.c, f[0]), uint64(field.Offset))
			line(l.c+"."+f[0]+" bytes", fmt.Sprintf("sizeof(((%s *)0)->%s)", l.c, f[0]), uint64(field.Type.Size()))
		}
	}
	for _, n := range numbers {
		line(n.c, n.c, n.value)
	}
	// Beside pointers, the size of a mutex depends on the processor.
	line("abi_compat", "offsetof(struct ibv_context, abi_compat)", ctxABI)
	line("struct ibv_context", "sizeof(struct ibv_context)", contextSize)
	program.WriteString("return 0;\n}\n")

	dir := t.TempDir()
	source, binary := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", binary, source).CombinedOutput(); err != nil {
		if strings.Contains(string(out), ".h: No such file") {
			t.Skip("there are no headers to compare with: apt-get install libibverbs-dev librdmacm-dev")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(got) != len(want) {
		t.Fatalf("C says %d lines, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("C says %q, Go %q", got[i], want[i])
		}
	}
	t.Logf("%d structures, %d numbers", len(layouts), len(want))
}
