// What an RpcClient starts instead of its own engine: the engine that $POLYLECT_ENGINE names, on the same pipes.
import { spawn } from "node:child_process";

const [program, ...words] = JSON.parse(process.env.POLYLECT_ENGINE);
const engine = spawn(program, [...words, ...process.argv.slice(2)], { stdio: "inherit" });
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => engine.kill(signal));
engine.on("exit", (code, signal) => process.exit(signal ? 1 : code));
