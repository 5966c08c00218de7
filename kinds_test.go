// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// Code asks for abilities of devices by capability: only the table compares with the name of a kind,
// or looks something up by it.
func TestKindsAreAskedByCapability(t *testing.T) {
	isKind := func(e ast.Expr) bool {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return false
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			return false
		}
		_, err = kinds.Find(strings.TrimSuffix(text, ":"))
		return err == nil
	}
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && filepath.ToSlash(path) == "internal/device/kinds":
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		wrong := func(e ast.Expr) {
			if isKind(e) {
				t.Errorf("%v: the name of a kind decides: ask the device's Transport or Caps, or the table in internal/device/kinds", fset.Position(e.Pos()))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					wrong(n.X)
					wrong(n.Y)
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					wrong(e)
				}
			case *ast.KeyValueExpr:
				wrong(n.Key)
			case *ast.IndexExpr:
				wrong(n.Index)
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok {
					if x, ok := f.X.(*ast.Ident); ok && x.Name == "strings" {
						for _, e := range n.Args {
							wrong(e)
						}
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}
