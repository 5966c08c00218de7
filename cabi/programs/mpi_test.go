// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Three ranks of an MPI program, whose messages and one-sided operations go over UCX and nothing
// but verbs below it.
func TestMPI(t *testing.T) {
	dir, program := need(t, "mpicc.openmpi", "mpirun.openmpi", "ucx_info"), rings(t)
	for _, kind := range []string{"roce", "shm"} {
		t.Run(kind, func(t *testing.T) { runMPI(t, dir, kind+":"+serverAddr, program) })
	}
}

// Under the checker, with protected pages, there are no findings but UCX's, which docs/check.md describes.
func TestCheckedMPI(t *testing.T) {
	dir, program := need(t, "mpicc.openmpi", "mpirun.openmpi", "ucx_info"), rings(t)
	for _, kind := range []string{"roce", "shm"} {
		t.Run(kind, func(t *testing.T) {
			reports := t.TempDir() // mpirun mixes the output of ranks
			t.Setenv("RAMJET_CHECK", "exitcode=0 protect log="+reports+"/%p")
			runMPI(t, dir, kind+":"+serverAddr, program)
			files, err := filepath.Glob(filepath.Join(reports, "*"))
			if err != nil {
				t.Fatal(err)
			}
			var ranks int
			for _, name := range files {
				said := string(content(t, name))
				if said == "" { // of another process
					continue
				}
				ranks++
				if got := found(said, []string{"receive-touched"}); !slices.Equal(got, []string{"memory-freed"}) {
					t.Errorf("found %q, and not memory-freed:\n%s", got, said)
				}
			}
			if ranks != 3 {
				t.Errorf("%d ranks have findings, not 3 those of UCX's datagrams", ranks)
			}
		})
	}
}

// rings builds testdata/mpi/rings.c, and has its ranks use verbs.
func rings(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "rings")
	if out, err := exec.Command("mpicc.openmpi", "-O1", "-Wall", "-Werror", "-o", program,
		"testdata/mpi/rings.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("UCX_TLS", "rc_verbs,ud_verbs")
	t.Setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
	t.Setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
	return program
}

// runMPI runs an MPI program whose ranks have a device of one address each.
func runMPI(t *testing.T, dir, device, program string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := []string{ramjet(t), "run", "--libs", dir, "--", "mpirun.openmpi", "--oversubscribe", "-n", "3",
		"--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
		program}
	run := command(ctx, dir, device, args...)
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) } // so that it ends its ranks
	run.WaitDelay = 10 * time.Second
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "3 ranks have what they should") {
		t.Errorf("%v\n%s", err, out)
	}
}
