// SPDX-License-Identifier: Apache-2.0

// Package runcmd is `ramjet run`: C programs with the libraries of Ramjet, and the files that stand for their /sys.
package runcmd

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// runLibs are the libraries that `ramjet run` puts in front of the system's.
var runLibs = []string{"libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3", "libramjet.so", sysfsLib, socketsLib,
	checkLib}

// socketsLib turns a program's TCP sockets into rsockets.
const socketsLib = "librspreload.so"

// checkLib has the checker see the memory that a program frees.
const checkLib = "libramjet-check.so"

// sysfsLib is loaded before all others: it shows programs the devices in /sys and /dev.
const sysfsLib = "libramjet-sysfs.so"

// New returns `ramjet run`.
func New() *cobra.Command {
	var libs string
	var devices []string
	var sockets, nic bool
	var pcap, faults, faultLog, log, logFilter, checks string
	c := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARGUMENTS...]",
		Short: "Run a C program that uses libibverbs or librdmacm on Ramjet's devices",
		Long: "Run starts an unmodified program with Ramjet's libibverbs.so.1 and librdmacm.so.1 in place of the system's.\n" +
			"It looks for them in --libs or $RAMJET_LIBS, or else in lib and ../lib/ramjet beside this command,\n" +
			"~/.local/lib/ramjet, /usr/local/lib/ramjet and /usr/lib/ramjet. Releases include them; cabi/build.sh builds them.\n\n" +
			"The program sees a device for each address of this machine, or those of --device or $RAMJET_DEVICES, or that of\n" +
			"$RAMJET_DEVICE. In the program the first roce: device is called roce0, the next roce1, the first shm: device shm0,\n" +
			"and NAME=roce:192.0.2.7 is called NAME. A program whose arguments or environment name roce_192.0.2.7 has a device\n" +
			"of that name. UCX, and MPI with it, takes at most 15 characters.\n\n" +
			"Several processes may record with one --pcap (or $RAMJET_PCAP): %p in the name stands for the process id, and if\n" +
			"the file exists a number is added, as in a-2.pcapng. Nothing is overwritten.\n\n" +
			"--faults (or $RAMJET_FAULTS) injects faults: lost packets, calls that fail, completions with errors, events. Each that\n" +
			"strikes is logged to --fault-log (or $RAMJET_FAULT_LOG, where %p stands for the process id) or standard error. The log\n" +
			"can be the faults of the next run. docs/faults.md has the language.\n\n" +
			"--nic (or $RAMJET_NIC=1) makes the devices as strict as a NIC: a work request keeps its place in the queue until its\n" +
			"completion has been polled, and a completion queue that overflows fails with its queue pairs. docs/nic.md has the rest.\n\n" +
			"--log (or $RAMJET_LOG) logs each call of libibverbs and librdmacm with its arguments, result and duration, to standard\n" +
			"error or a file, where %p stands for the process id. --log-filter (or $RAMJET_LOG_FILTER) says which: calls by name or\n" +
			"pattern, object=qp1, errors; data for those of the data path, too; json for JSON lines. docs/log.md has the rest.\n\n" +
			"--check (or $RAMJET_CHECK) reports mistakes in the use of RDMA, such as memory that changes while it is posted. Its\n" +
			"options are words: log=FILE, off=RULE,RULE, exitcode=N, protect. docs/check.md has the rules. It is for programs in Go, too, which use\n" +
			"Ramjet's packages and need no libraries: what they leave is reported once they have ended.",
		Example: "  ramjet run -- ibv_devinfo\n" +
			"  ramjet run --device roce:127.0.0.11 -- ib_write_bw\n" +
			"  ramjet run --device roce:127.0.0.12 -- ib_write_bw 127.0.0.1\n" +
			"  ramjet run --faults 'loss 1%; fail reg_mr ENOMEM' -- ib_write_bw 127.0.0.1\n" +
			"  ramjet run --nic -- ib_write_bw 127.0.0.1\n" +
			"  ramjet run --log=calls.%p --log-filter '*_qp errors' -- ib_write_bw 127.0.0.1\n" +
			"  ramjet run --check -- ./program\n" +
			"  ramjet run --sockets -- curl http://192.0.2.7:8000/",
		Args: cli.Arguments(1, -1),
	}
	c.Flags().StringVar(&libs, "libs", "", "`folder` of the libraries")
	c.Flags().StringSliceVarP(&devices, "device", "d", nil,
		"`device` that the program sees, such as roce:192.0.2.7, or NAME=roce:192.0.2.7; may be repeated")
	c.Flags().BoolVar(&sockets, "sockets", false,
		"make the program's TCP sockets rsockets, where the other side has one")
	cli.AddPcapFlag(c, &pcap, "every packet of the program's devices")
	c.Flags().StringVar(&faults, "faults", "", "inject these `faults`: a text, or the name of a file with one")
	c.Flags().StringVar(&faultLog, "fault-log", "", "`file` for the faults that strike")
	c.Flags().BoolVar(&nic, "nic", false, "make the devices as strict as a NIC and the specification")
	c.Flags().StringVar(&log, "log", "", "log the program's calls to a `file`, or to standard error")
	c.Flags().Lookup("log").NoOptDefVal = standardError
	c.Flags().StringVar(&logFilter, "log-filter", "", "log only what this `filter` says: calls, objects, errors")
	c.Flags().StringVar(&checks, "check", "", "report mistakes in the use of RDMA, with these `options`")
	c.Flags().Lookup("check").NoOptDefVal = "1"
	c.Flags().SetInterspersed(false)
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		if runtime.GOOS != "linux" {
			return cli.Usagef("C programs run on Ramjet on Linux only, not on %s", runtime.GOOS)
		}
		program, err := exec.LookPath(args[0])
		if err != nil {
			return usage.Of(meantCheck(err, checks, args[0]))
		}
		dir, err := findLibs(libs)
		if err != nil && (libs != "" || !isGoProgram(program)) { // which needs them only for C programs that it starts
			return usage.Of(err)
		}
		if len(devices) == 0 && os.Getenv(cdevices.Environment) == "" {
			n, set, err := kinds.FromEnvironment()
			if err != nil {
				return usage.Of(err)
			}
			if set {
				devices = []string{n.String()}
			}
		}
		env := runEnv(os.Environ(), dir, devices, args)
		if pcap != "" {
			if pcap, err = recordProgram(pcap, env); err != nil {
				return cli.Usagef("--pcap: %w", err)
			}
			env = append(env, cdevices.Recording+"="+pcap)
		}
		faultEnv, err := faultEnvironment(faults, faultLog)
		if err != nil {
			return usage.Of(err)
		}
		env = append(env, faultEnv...)
		if nic {
			env = append(env, kinds.NICVariable+"=1")
		}
		logEnv, err := callLogEnvironment(log, logFilter, env)
		if err != nil {
			return usage.Of(err)
		}
		env = append(env, logEnv...)
		checkEnv, err := checkEnvironment(checks)
		if err != nil {
			return usage.Of(err)
		}
		env = append(env, checkEnv...)
		if _, err := cdevices.List(lookup(env, cdevices.Environment)); err != nil {
			return usage.Of(err)
		}
		return execProgram(program, args, env, dir, sockets)
	})
}

// recordProgram returns the value of RAMJET_PCAP for a pattern: an absolute path, as programs change their
// directory. It is an error if nothing could be recorded.
func recordProgram(pattern string, env []string) (string, error) {
	pattern, err := filepath.Abs(pattern)
	if err != nil {
		return "", err
	}
	if err := cdevices.CheckRecording(cdevices.RecordingName(pattern, os.Getpid())); err != nil {
		return "", err
	}
	listed, err := cdevices.List(lookup(env, cdevices.Environment))
	if err != nil {
		return "", err
	}
	for _, d := range listed {
		if n, err := kinds.Parse(d.Address); err == nil && n.Kind.Unrecorded != "" {
			return "", fmt.Errorf("%q: %s", d.Address, n.Kind.Unrecorded)
		}
	}
	return pattern, nil
}

// findLibs returns the folder of the libraries. If dir is not empty they must be there.
func findLibs(dir string) (string, error) {
	named := cmp.Or(dir, os.Getenv("RAMJET_LIBS"))
	candidates := libFolders()
	if named != "" {
		candidates = []string{named}
	}
	var missing string
	for _, d := range candidates {
		d, err := filepath.Abs(d)
		if err != nil {
			return "", err
		}
		if missing = missingLib(d); missing == "" {
			return d, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s: %s", missing, strings.Join(candidates, " or "),
		howToBuildLibs(softdev.Version(), named))
}

// libFolders are the folders to look for the libraries if nobody names one: of a checkout, an unpacked archive,
// cabi/build.sh and a package have them. The system's own libraries are in none of these folders.
func libFolders() []string {
	var folders []string
	if self, err := os.Executable(); err == nil {
		at := filepath.Dir(self)
		folders = append(folders, filepath.Join(at, "lib"), filepath.Join(filepath.Dir(at), "lib", "ramjet"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, filepath.Join(home, ".local", "lib", "ramjet"))
	}
	for _, f := range []string{"/usr/local/lib/ramjet", "/usr/lib/ramjet"} {
		if !slices.Contains(folders, f) {
			folders = append(folders, f)
		}
	}
	return folders
}

// howToBuildLibs says which command builds the libraries: from the sources that `go install` has left in the
// module cache if this command is of a version, from a checkout otherwise.
func howToBuildLibs(version, folder string) string {
	build := "cabi/build.sh"
	where := " in a checkout of Ramjet"
	if strings.HasPrefix(version, "v") && !strings.Contains(version, "+") {
		build = fmt.Sprintf(`bash "$(go list -m -f '{{.Dir}}' %s@%s)/cabi/build.sh"`, softdev.Module, version)
		where = ""
	}
	if folder != "" {
		build += " " + folder
	}
	return fmt.Sprintf("run `%s`%s, or install the package or archive of a release, which have them", build, where)
}

func missingLib(dir string) string {
	for _, l := range runLibs {
		if _, err := os.Stat(filepath.Join(dir, l)); err != nil {
			return l
		}
	}
	return ""
}

// runEnv returns env with the libraries' folder first, and the devices, if any. A device that the program's arguments
// or its environment name by its address, roce_192.0.2.7, has that name.
func runEnv(env []string, dir string, devices, args []string) []string {
	words := append(slices.Clone(args), env...)
	if dir != "" {
		env = append(env, before(env, "LD_LIBRARY_PATH", dir))
	}
	names, set := lookup(env, cdevices.Environment)
	if len(devices) > 0 {
		names, set = strings.Join(devices, " "), true
	}
	if names, set = cdevices.Named(names, set, words); set {
		env = append(env, cdevices.Environment+"="+names)
	}
	return env
}
