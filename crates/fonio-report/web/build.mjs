// Bundles the report's script and style into dist/, from where the Rust side embeds them.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

// The licences of what is bundled ask to be handed on with it.
const licence = (name, file) => readFileSync(`node_modules/${name}/${file}`, "utf8").trim();
const notice = [
  licence("echarts", "NOTICE"),
  "Apache ECharts is licensed under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0",
  "zrender:",
  licence("zrender", "LICENSE"),
].join("\n\n").replaceAll("*/", "* /");

await build({
  entryPoints: { report: "src/main.js" },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox113", "safari16.4"],
  define: { "process.env.NODE_ENV": '"production"', __DEV__: "false" },
  banner: { js: `/*!\n${notice}\n*/` },
  legalComments: "none",
  logLevel: "warning",
});

await build({
  entryPoints: { report: "src/report.css" },
  outdir: "dist",
  minify: true,
  target: ["chrome123", "firefox120", "safari17.5"],
  logLevel: "warning",
});
