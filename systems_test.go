// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// TestSystems checks the types of all packages and their tests as they are built for other systems. Compilers would say
// the same, and take ten times as long, as they would compile Go's library for each.
func TestSystems(t *testing.T) {
	testrun.SkipUnlessLong(t, "it reads Go's library for each system")
	for _, target := range []string{"linux/arm", "linux/arm64", "darwin/arm64", "freebsd/amd64", "windows/amd64"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			goos, goarch, _ := strings.Cut(target, "/")
			c := checker{
				files:    token.NewFileSet(),
				sizes:    types.SizesFor("gc", goarch),
				packages: map[string]*types.Package{"unsafe": types.Unsafe},
			}
			own := 0
			for _, p := range listed(t, "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0") {
				if p.own() {
					own++
				}
				for _, err := range c.check(p) {
					t.Error(err)
				}
			}
			if own < 100 {
				t.Errorf("%d packages of the module were checked: these are not all", own)
			}
		})
	}
}

// listedPackage is what go list says of a package, or of one with its tests.
type listedPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // the packages that imports mean: those of the library's vendor folder, or with tests
	Module     *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// own reports whether the package is the module's.
func (p *listedPackage) own() bool { return p.Module != nil && p.Module.Main }

// listed returns the module's packages, with their tests and all that they import, each one after its imports.
func listed(t *testing.T, environment ...string) []*listedPackage {
	t.Helper()
	const fields = "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error"
	var packages []*listedPackage
	for _, p := range goList[listedPackage](t, environment, "-test", fields) {
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		// The programs that run tests are made by go test, and import nothing that is not here.
		if p.ImportPath != "unsafe" && !strings.HasSuffix(p.ImportPath, ".test") {
			packages = append(packages, p)
		}
	}
	return packages
}

// checker checks the types of packages, each one after its imports.
type checker struct {
	files    *token.FileSet
	sizes    types.Sizes
	packages map[string]*types.Package
}

// check returns the errors of a package. Functions of other modules are not looked into.
func (c *checker) check(p *listedPackage) []error {
	var errs []error
	failed := func(err error) { errs = append(errs, err) }
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			failed(err)
			continue
		}
		files = append(files, f)
	}
	config := types.Config{
		Importer:         imports{c, p.ImportMap},
		Sizes:            c.sizes,
		IgnoreFuncBodies: !p.own(),
		Error:            failed,
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // without "[the tests that it is for]"
	c.packages[p.ImportPath], _ = config.Check(path, c.files, files, nil)
	return errs
}

// imports finds what one package imports.
type imports struct {
	c  *checker
	as map[string]string
}

// Import returns a package that has been checked before.
func (i imports) Import(path string) (*types.Package, error) {
	if as, ok := i.as[path]; ok {
		path = as
	}
	if p := i.c.packages[path]; p != nil {
		return p, nil
	}
	return nil, os.ErrNotExist
}
