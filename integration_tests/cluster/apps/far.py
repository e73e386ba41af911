"""A TCP proxy that makes a host seem far away: far.py HOST DELAY_S PORT...

Forwards each port to the same one of the host; every byte arrives ``DELAY_S`` seconds later, in
both directions.
"""

import asyncio
import sys


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Copy what is read, later."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=4096)

    async def read() -> None:
        data = b"-"
        while data:
            try:
                data = await reader.read(65536)
            except ConnectionError:
                data = b""
            await waiting.put((loop.time() + delay, data))

    reading = asyncio.create_task(read())
    try:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        reading.cancel()
        writer.close()


async def serve(host: str, delay: float, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        print(f"forwards port {port} to {host}", flush=True)
        far_reader, far_writer = await asyncio.open_connection(host, port)
        await asyncio.gather(forward(reader, far_writer, delay), forward(far_reader, writer, delay))

    server = await asyncio.start_server(connected, "0.0.0.0", port)
    await server.serve_forever()


async def main() -> None:
    host, delay, ports = sys.argv[1], float(sys.argv[2]), map(int, sys.argv[3:])
    await asyncio.gather(*(serve(host, delay, port) for port in ports))


asyncio.run(main())
