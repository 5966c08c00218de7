// SPDX-License-Identifier: Apache-2.0

// Command ramjet-kubelet gives pods of a Kubernetes node RDMA devices without hardware: a device plugin, and a driver
// of dynamic resource allocation. `ramjet kubelet` starts it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ramjet-rdma/ramjet/kubernetes/internal/claims"
	"github.com/ramjet-rdma/ramjet/kubernetes/internal/config"
	"github.com/ramjet-rdma/ramjet/kubernetes/internal/hardware"
	"github.com/ramjet-rdma/ramjet/kubernetes/internal/inject"
	"github.com/ramjet-rdma/ramjet/kubernetes/internal/metrics"
	"github.com/ramjet-rdma/ramjet/kubernetes/internal/plugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := newCommand(os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "ramjet-kubelet: %v\n", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	config     string
	node       string
	kubeconfig string
	sysfs      string
	check      bool
}

func newCommand(log io.Writer) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "ramjet-kubelet",
		Short: "Give pods of a Kubernetes node RDMA devices without hardware",
		Long: "Ramjet-kubelet registers with the node's kubelet as a device plugin, and as a driver of dynamic resource\n" +
			"allocation where its configuration says so. A container that asks for a device gets Ramjet's libibverbs and\n" +
			"librdmacm, read-only, and the environment that makes its programs use them. It needs the kubelet's folder, a\n" +
			"folder of its own on the node, and the folder of CDI's specifications; no privilege and no device.",
		Example:       "  ramjet-kubelet --config /etc/ramjet/kubelet.yaml\n  ramjet-kubelet --config kubelet.yaml --check",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), slog.New(slog.NewTextHandler(log, nil)))
		},
	}
	c.Flags().StringVar(&o.config, "config", "",
		"`file` of what to offer; without it, the names that manifests in the field ask for")
	c.Flags().StringVar(&o.node, "node", os.Getenv("NODE_NAME"),
		"the node's `name`, for dynamic resource allocation; $NODE_NAME")
	c.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "`file` by which to reach the API server, outside a pod")
	c.Flags().StringVar(&o.sysfs, "sysfs", "/sys", "`folder` where the node's sysfs is, to see its RDMA hardware")
	c.Flags().BoolVar(&o.check, "check", false, "check the configuration, say what would be offered, and exit")
	return c
}

func (o *options) run(ctx context.Context, log *slog.Logger) error {
	cfg := config.Default()
	var err error
	if o.config != "" {
		if cfg, err = config.Read(o.config); err != nil {
			return err
		}
	}
	present, err := hardware.Devices(o.sysfs)
	if err != nil {
		return err
	}
	if cfg = cfg.Beside(present); len(present) > 0 {
		log.Info("the node has RDMA devices of its own", "devices", present, "hardware", cfg.Hardware)
	}
	for _, r := range cfg.Resources {
		log.Info("offered", "resource", r.Name, "devices", r.Devices)
	}
	if cfg.DRA.Enabled {
		log.Info("offered", "driver", cfg.DRA.Driver, "devices", cfg.DRA.Devices)
	}
	if o.check {
		return nil
	}
	if len(cfg.Resources) == 0 && !cfg.DRA.Enabled {
		log.Info("nothing is offered on this node")
		<-ctx.Done() // an exit would be restarted for ever
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	in, err := injector(ctx, g, &cfg, log)
	if err != nil {
		return err
	}
	if err := servePlugins(ctx, g, &cfg, in, log); err != nil {
		return err
	}
	if cfg.DRA.Enabled {
		if err := o.serveClaims(ctx, g, &cfg, in, log); err != nil {
			return err
		}
	}
	return g.Wait()
}

// injector returns the injector, and serves metrics if the configuration says so.
func injector(ctx context.Context, g *errgroup.Group, cfg *config.Config, log *slog.Logger) (*inject.Injector, error) {
	if cfg.Metrics == "" {
		return inject.New(config.Domain, cfg.CDI, cfg.Files, cfg.Folder, nil)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	sockets, err := metrics.Listen(filepath.Join(cfg.Folder, "stat"))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	in, err := inject.New(config.Domain, cfg.CDI, cfg.Files, cfg.Folder, sockets)
	if err != nil {
		return nil, errors.Join(err, sockets.Close(), l.Close())
	}
	pods, err := metrics.NewPods(cfg.Kubelet, inject.DeviceFolder, in.ClaimFolder)
	if err != nil {
		return nil, errors.Join(err, sockets.Close(), l.Close())
	}
	log.Info("metrics", "address", l.Addr())
	g.Go(func() error {
		return errors.Join(sockets.Serve(ctx, l, pods.Labels), sockets.Close(), pods.Close())
	})
	return in, nil
}

// servePlugins starts a device plugin for each resource.
func servePlugins(ctx context.Context, g *errgroup.Group, cfg *config.Config, in *inject.Injector,
	log *slog.Logger) error {
	var all []inject.Device
	var plugins []*plugin.Plugin
	for _, r := range cfg.Resources {
		p := &plugin.Plugin{
			Resource: r.Name,
			CDIName:  in.Name,
			Health:   in.Check,
			Folder:   filepath.Join(cfg.Kubelet, "device-plugins"),
			Times:    plugin.DefaultTimes,
			Log:      log,
		}
		for i := range r.Devices {
			name := fmt.Sprintf("%s-%d", inject.Slug(r.Name), i)
			p.Devices = append(p.Devices, name)
			all = append(all, inject.Device{Name: name, Environment: r.Environment})
		}
		plugins = append(plugins, p)
	}
	if err := in.WriteDevices(all); err != nil { // before anybody can be given one
		return err
	}
	for _, p := range plugins {
		g.Go(func() error { return p.Run(ctx) })
	}
	return nil
}

// serveClaims starts the driver of dynamic resource allocation.
func (o *options) serveClaims(ctx context.Context, g *errgroup.Group, cfg *config.Config, in *inject.Injector,
	log *slog.Logger) error {
	if o.node == "" {
		return errors.New(
			"dra is enabled, and the node's name is not known: set --node, or NODE_NAME from the pod's spec.nodeName")
	}
	client, err := o.client()
	if err != nil {
		return fmt.Errorf("dra is enabled, and there is no way to the API server: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	d := &claims.Driver{
		Name: cfg.DRA.Driver, Node: o.node, Devices: cfg.DRA.Devices, Environment: cfg.DRA.Environment,
		Injector: in, Log: log, Fatal: fail,
	}
	g.Go(func() error {
		defer fail(nil)
		if err := d.Run(ctx, client, cfg.Kubelet); err != nil {
			return err
		}
		if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	return nil
}

// client reaches the API server: by a file, or as a pod does.
func (o *options) client() (kubernetes.Interface, error) {
	cfg, err := rest.InClusterConfig()
	if o.kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}
