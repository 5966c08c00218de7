// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/fabriccontrol"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// fabricSource is the source of a fabric: a file or a shape.
type fabricSource struct {
	file   string
	shapes []shapeValue // the given ones
	spare  int          // free ports of each switch of a shape
}

// shapeValue is the value of a flag that names a shape.
type shapeValue struct{ flag, text string }

// fabricShapes are the flags for shapes, with the prefix of their values in the text of a shape.
var fabricShapes = []struct{ flag, prefix, help string }{
	{"star", "star:", "one switch: `ADAPTERS` at it"},
	{"line", "line:", "switches in a line: `SWITCHES,ADAPTERS` at each"},
	{"ring", "ring:", "switches in a ring: `SWITCHES,ADAPTERS` at each"},
	{"fat-tree", "fat-tree:", "a fat tree: `PORTS,LEVELS`: ports down of each switch, levels of switches"},
	{"xgft", "xgft:", "an extended fat tree, such as 10,8;1,5: `CHILDREN;PARENTS` of each level"},
	{"generate", "", "any `SHAPE`, written as pair, star:8, ring:4,2, …"},
}

// add adds a flag for each shape to a command, and one for the file where that is no argument.
func (s *fabricSource) add(c *cobra.Command, fileFlag bool) {
	for _, shape := range fabricShapes {
		c.Flags().Var(shapeFlag{s, shape.flag, shape.prefix}, shape.flag, shape.help)
	}
	if fileFlag {
		c.Flags().StringVar(&s.file, "topology", "", "a topology `file`, which need not run")
	}
}

// shapeFlag is the value of a flag of a shape.
type shapeFlag struct {
	source *fabricSource
	name   string
	prefix string
}

var _ pflag.Value = shapeFlag{}

func (f shapeFlag) String() string { return "" }

// Type returns the name of the value in a command's help.
func (f shapeFlag) Type() string { return "shape" }

// Set adds the shape.
func (f shapeFlag) Set(text string) error {
	f.source.shapes = append(f.source.shapes, shapeValue{"--" + f.name, f.prefix + text})
	return nil
}

// named reports whether a file or a shape was given.
func (s *fabricSource) named() bool { return s.file != "" || len(s.shapes) > 0 }

// one checks that there is one source, and returns its shape, or nothing if it is the file.
func (s *fabricSource) one() (shape string, err error) {
	var given []string
	if s.file != "" {
		given = append(given, s.file)
	}
	for _, v := range s.shapes {
		given = append(given, v.flag)
		shape = v.text
	}
	switch {
	case len(given) == 0:
		return "", cli.Usagef("name a topology file, or a shape such as --fat-tree 4,2")
	case s.spare != 0 && s.file != "":
		return "", cli.Usagef("--spare is for shapes: a file says how many ports a switch has")
	case len(given) > 1:
		return "", cli.Usagef("%s: a fabric is made of one of them", strings.Join(given, " and "))
	}
	return shape, nil
}

// start starts a fabric.
func (s *fabricSource) start(o *infiniband.FabricOptions) (f *infiniband.Fabric, err error) {
	shape, err := s.one()
	switch {
	case err != nil:
		return nil, err
	case shape != "":
		f, err = infiniband.GenerateFabric(shape, o)
	default:
		f, err = infiniband.ReadFabric(s.file, o)
	}
	return f, sourceError(err)
}

// plan returns the view of a fabric that does not run.
func (s *fabricSource) plan() (*fabricview.View, error) {
	shape, err := s.one()
	if err != nil {
		return nil, err
	}
	v, err := fabriccontrol.Planned(s.file, shape)
	return v, sourceError(err)
}

// sourceError makes an error in a file or a shape a usage error. A file may have several errors, a
// line each.
func sourceError(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "infiniband: ")
	return usage.Errorf("%s", strings.TrimPrefix(text, "topology: "))
}
